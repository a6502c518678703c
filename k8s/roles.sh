#!/usr/bin/env bash
# roles.sh [SERVICE...]: makes the schema and the two roles of each service, of all when none is named, with new passwords, and prints the
# secrets that charts/rowlock expects: rowlock-SERVICE-db, for the replicas, and rowlock-SERVICE-db-owner, for the migrations.
#
#   k8s/roles.sh | kubectl apply --namespace rowlock -f -
#
# Run again it makes new ones, and replicas that run then need a restart. PSQL is a command that runs psql in the database as an administrator: by
# default in the pod that postgres.yaml makes, in kubectl's current namespace. HOST, PORT and DBNAME go into the secrets, for a server of your own:
#
#   PSQL="psql $ADMIN" HOST=db.example k8s/roles.sh | kubectl apply --namespace rowlock -f -
set -euo pipefail
cd "$(dirname "$0")"

psql=${PSQL:-kubectl exec --stdin postgres-0 -- psql --username=postgres --dbname=rowlock}
host=${HOST:-postgres} port=${PORT:-5432} dbname=${DBNAME:-rowlock}
[ $# -gt 0 ] || set -- counts events iidy payments pyggpot

# password prints one that ends in what a URL does not bear, because a secret may hold anything.
password() { printf '%s/@:?%%' "$(openssl rand -hex 16)"; }

# secret NAME ROLE PASSWORD
secret() {
	cat <<-YAML
		---
		apiVersion: v1
		kind: Secret
		metadata:
		  name: $1
		stringData: {host: '$host', port: '$port', dbname: '$dbname', username: '$2', password: '$3'}
	YAML
}

for service in "$@"; do
	runtime=$(password) owner=$(password)
	# By standard input: other users of this machine can read a program's arguments.
	# shellcheck disable=SC2086 # PSQL is a list of words
	printf "\\set service '%s'\n\\set password '%s'\n\\set owner_password '%s'\n" "$service" "$runtime" "$owner" |
		cat - roles.psql | $psql --quiet --no-psqlrc >/dev/null
	# At once: the passwords hold, whatever becomes of the next service.
	secret "rowlock-$service-db" "$service" "$runtime"
	secret "rowlock-$service-db-owner" "${service}_owner" "$owner"
done
