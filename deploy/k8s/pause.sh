#!/usr/bin/env bash
# A pause of a fleet, and its end: deploy/k8s/pause.sh pause|resume [NAMESPACE]
#
# Self-play leaves first, while Postgres still takes its finished games; stores leave last and come
# back first. How many there were of each stands in the annotation zerofleet/replicas meanwhile.
set -euo pipefail

what=${1:-}
namespace=${2:-zerofleet}
leaving=(selfplay evaluator trainer dashboard tools autoscaler inference redis postgres)

on() { kubectl --namespace "$namespace" "$@"; }

# deployment/NAME or statefulset/NAME, or nothing where the fleet has none of that name.
workload() {
  on get deployment,statefulset --field-selector "metadata.name=$1" --output name
}

scalers() {
  on get scaledobject --output name 2>/dev/null || true  # a cluster without KEDA has no such kind
}

pause() {
  for scaler in $(scalers); do
    on annotate --overwrite "$scaler" autoscaling.keda.sh/paused=true
  done
  for name in "${leaving[@]}"; do
    found=$(workload "$name")
    [ -n "$found" ] || continue
    replicas=$(on get "$found" --output 'jsonpath={.spec.replicas}')
    if [ "$replicas" != 0 ]; then
      on annotate --overwrite "$found" "zerofleet/replicas=$replicas" >/dev/null
      on scale "$found" --replicas=0
    fi
    on wait --for=delete pod --selector "app.kubernetes.io/name=$name" --timeout=180s
  done
}

resume() {
  for ((i = ${#leaving[@]} - 1; i >= 0; i--)); do
    found=$(workload "${leaving[i]}")
    [ -n "$found" ] || continue
    replicas=$(on get "$found" --output 'jsonpath={.metadata.annotations.zerofleet/replicas}')
    if [ -n "$replicas" ]; then
      on scale "$found" "--replicas=$replicas"
      on annotate "$found" zerofleet/replicas- >/dev/null
    fi
  done
  for scaler in $(scalers); do
    on annotate "$scaler" autoscaling.keda.sh/paused-
  done
}

case $what in
  pause | resume) "$what" ;;
  *)
    echo "usage: $0 pause|resume [NAMESPACE]" >&2
    exit 2
    ;;
esac
