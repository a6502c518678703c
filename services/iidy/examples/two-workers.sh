#!/bin/sh
# Two workers share a list by claims.
#
#   ./two-workers.sh LIST FROM TO < names     (see worker.sh)
set -eu
here=$(dirname "$0")
curl -sfS --data-binary @- "${IIDY:-http://127.0.0.1:8084}/iidy/v1/batch/lists/$1"
"$here/worker.sh" "$@" &
first=$!
"$here/worker.sh" "$@"
wait "$first"
