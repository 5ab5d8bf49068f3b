# Adminer of Debian, where the official image cannot be had: the same port, user and page.
FROM python:3.11-slim-bookworm
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends php-cli php-pgsql adminer \
 && rm -rf /var/lib/apt/lists/* \
 && ln -s adminer.php /usr/share/adminer/index.php \
 && useradd --no-create-home adminer
USER adminer
CMD ["php", "-d", "session.save_path=/tmp", "-S", "0.0.0.0:8080", "-t", "/usr/share/adminer"]
