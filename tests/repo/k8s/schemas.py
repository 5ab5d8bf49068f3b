"""JSON schemas of the kinds that operators bring, as strict as those of Kubernetes itself.

They allow what our manifests use, which is less than the kinds have: a key that is not here is a
typo until it is looked up and added. After KEDA 2.17, Prometheus Operator 0.60 and
cert-manager 1.12.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string", "minLength": 1}
_COUNT: Schema = {"type": "integer", "minimum": 1}
_TIME: Schema = {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}
_HOURS: Schema = {"type": "string", "pattern": "^[0-9]+h$"}


def _object(properties: Schema, required: str = "") -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": required.split(),
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "minItems": 1, "uniqueItems": True, "items": items}


def _texts() -> Schema:
    return {"type": "object", "additionalProperties": {"type": "string"}}


def _kind(version: str, kind: str, spec: Schema) -> Schema:
    name = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"}
    metadata = {"name": name, "namespace": _TEXT, "labels": _texts(), "annotations": _texts()}
    return _object(
        {
            "apiVersion": {"const": version},
            "kind": {"const": kind},
            "metadata": _object(metadata, "name namespace"),
            "spec": spec,
        },
        "apiVersion kind metadata spec",
    )


_TRIGGER = _object(
    {
        "type": {"const": "external-push"},
        # The default; the only one with which a fallback works.
        "metricType": {"const": "AverageValue"},
        "authenticationRef": _object({"name": _TEXT}, "name"),
        "metadata": _object(
            {
                "scalerAddress": {"type": "string", "pattern": "^[a-z0-9.-]+:[0-9]+$"},
                "role": {"enum": ["selfplay", "inference"]},
                "run": _TEXT,
            },
            "scalerAddress role",
        ),
    },
    "type metricType metadata",
)
_RULES = _object(
    {
        "stabilizationWindowSeconds": {"type": "integer", "minimum": 0, "maximum": 3600},
        "policies": _list(
            _object(
                {
                    "type": {"enum": ["Percent", "Pods"]},
                    "value": _COUNT,
                    "periodSeconds": {"type": "integer", "minimum": 1, "maximum": 1800},
                },
                "type value periodSeconds",
            )
        ),
    },
    "stabilizationWindowSeconds policies",
)
_BEHAVIOUR = _object({"scaleUp": _RULES, "scaleDown": _RULES}, "scaleUp scaleDown")
_SCALED_OBJECT = _object(
    {
        "scaleTargetRef": _object({"name": _TEXT}, "name"),
        "pollingInterval": _COUNT,
        "minReplicaCount": {"type": "integer", "minimum": 0},
        "maxReplicaCount": _COUNT,
        "fallback": _object(
            {
                "failureThreshold": _COUNT,
                "replicas": _COUNT,
                "behavior": {
                    "enum": [
                        "static",
                        "currentReplicas",
                        "currentReplicasIfHigher",
                        "currentReplicasIfLower",
                    ]
                },
            },
            "failureThreshold replicas behavior",
        ),
        "advanced": _object(
            {
                "horizontalPodAutoscalerConfig": _object(
                    {"name": _TEXT, "behavior": _BEHAVIOUR}, "behavior"
                )
            },
            "horizontalPodAutoscalerConfig",
        ),
        "triggers": _list(_TRIGGER),
    },
    "scaleTargetRef minReplicaCount maxReplicaCount fallback advanced triggers",
)
_TRIGGER_AUTHENTICATION = _object(
    {
        "secretTargetRef": _list(
            _object(
                {
                    "parameter": {"enum": ["caCert", "tlsClientCert", "tlsClientKey"]},
                    "name": _TEXT,
                    "key": _TEXT,
                },
                "parameter name key",
            )
        )
    },
    "secretTargetRef",
)
_POD_MONITOR = _object(
    {
        "selector": _object({"matchLabels": {**_texts(), "minProperties": 1}}, "matchLabels"),
        "podMetricsEndpoints": _list(
            _object(
                {
                    "port": _TEXT,
                    "interval": _TIME,
                    "relabelings": _list(
                        _object(
                            {"sourceLabels": _list(_TEXT), "targetLabel": _TEXT},
                            "sourceLabels targetLabel",
                        )
                    ),
                },
                "port",
            )
        ),
    },
    "selector podMetricsEndpoints",
)
_PROMETHEUS_RULE = _object(
    {
        "groups": _list(
            _object(
                {
                    "name": _TEXT,
                    "rules": _list(
                        _object(
                            {
                                "alert": {"type": "string", "pattern": "^[A-Z][A-Za-z]+$"},
                                "expr": _TEXT,
                                "for": _TIME,
                                "labels": _object(
                                    {"severity": {"enum": ["info", "warning", "critical"]}},
                                    "severity",
                                ),
                                "annotations": _object(
                                    {"summary": _TEXT, "description": _TEXT}, "summary description"
                                ),
                            },
                            "alert expr labels annotations",
                        )
                    ),
                },
                "name rules",
            )
        )
    },
    "groups",
)
_CERTIFICATE = _object(
    {
        "secretName": _TEXT,
        "commonName": {"type": "string", "minLength": 1, "maxLength": 64},
        "dnsNames": _list(_TEXT),
        "isCA": {"type": "boolean"},
        "usages": _list({"enum": ["server auth", "client auth"]}),
        "duration": _HOURS,
        "renewBefore": _HOURS,
        "privateKey": _object(
            {
                "algorithm": {"const": "ECDSA"},
                "size": {"enum": [256, 384, 521]},
                "rotationPolicy": {"enum": ["Always", "Never"]},
            },
            "algorithm size rotationPolicy",
        ),
        "issuerRef": _object(
            {"name": _TEXT, "kind": {"enum": ["Issuer", "ClusterIssuer"]}}, "name kind"
        ),
    },
    "secretName commonName duration privateKey issuerRef",
)
_ISSUER: Schema = {
    "oneOf": [
        _object({"selfSigned": _object({})}, "selfSigned"),
        _object({"ca": _object({"secretName": _TEXT}, "secretName")}, "ca"),
    ]
}

SCHEMAS: dict[str, Schema] = {
    kind: _kind(version, kind, spec)
    for version, kind, spec in (
        ("keda.sh/v1alpha1", "ScaledObject", _SCALED_OBJECT),
        ("keda.sh/v1alpha1", "TriggerAuthentication", _TRIGGER_AUTHENTICATION),
        ("monitoring.coreos.com/v1", "PodMonitor", _POD_MONITOR),
        ("monitoring.coreos.com/v1", "PrometheusRule", _PROMETHEUS_RULE),
        ("cert-manager.io/v1", "Certificate", _CERTIFICATE),
        ("cert-manager.io/v1", "Issuer", _ISSUER),
    )
}
