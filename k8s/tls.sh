#!/usr/bin/env bash
# Prints two secrets: postgres-tls, a certificate and its key for the server that postgres.yaml makes, and rowlock-db-ca, by which clients
# verify it. The certificate signs itself, for a month.
#
#   k8s/tls.sh | kubectl apply --namespace rowlock -f -
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=postgres \
	-addext subjectAltName=DNS:postgres -keyout "$dir/tls.key" -out "$dir/tls.crt" 2>"$dir/log" ||
	{ cat "$dir/log" >&2; exit 1; }
secret() { kubectl create secret "$@" --dry-run=client --output=yaml; }
secret tls postgres-tls --cert="$dir/tls.crt" --key="$dir/tls.key"
echo ---
secret generic rowlock-db-ca --from-file=ca.crt="$dir/tls.crt"
