#!/bin/sh
# Downloads files of a list, as one of many workers: each claims some names, downloads these files, and reports what it
# has done. The names that failed are free again when the lease ends, and abandoned after five attempts; so are those of a
# worker that died.
#
#   ./worker.sh LIST FROM TO     (see download.sh; the names are in the list already)
#
# IIDY is the address of iidy, JOBS how many files are fetched at once, COUNT how many are claimed at once, LEASE the
# time of the claim, in which COUNT files must be fetched.
set -eu
list=$1 from=$2
mkdir -p "$3"
to=$(cd "$3" && pwd)
iidy=${IIDY:-http://127.0.0.1:8084}/iidy/v1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cat > fetch <<'FETCH'
mkdir -p "$to/$(dirname "$1")"
if curl -sf -o "$to/$1.part.$$" "$from/$1" && mv "$to/$1.part.$$" "$to/$1"; then
	echo "$1" >> "$work/done"
else
	rm -f "$to/$1.part.$$"
	echo "$1" >> "$work/failed"
fi
FETCH
export from to work

while :; do
	: > done
	: > failed
	curl -sfS --retry 5 --retry-connrefused -X POST -D header -o page "$iidy/batch/lists/$list?action=claim&count=${COUNT:-100}&lease=${LEASE:-10m}"
	claim=$(sed -n 's/^[Xx]-[Ii][Ii][Dd][Yy]-[Cc][Ll][Aa][Ii][Mm]: *//p' header | tr -d '\r')
	if [ -z "$claim" ]; then
		# No name is free. Those of other workers may be, later; the work is done when no name is left.
		status=$(curl -s -o /dev/null -w '%{http_code}' -I "$iidy/lists/$list")
		[ "$status" != 404 ] || break
		sleep 1
		continue
	fi
	sed 's/ [0-9]*$//' page | tr '\n' '\0' | xargs -0 -n 1 -P "${JOBS:-8}" sh fetch
	# With the claim: if its lease has ended these do not touch the names of the next worker.
	[ ! -s done ] || curl -sfS --retry 5 --retry-connrefused -X DELETE --data-binary @done "$iidy/batch/lists/$list?claim=$claim"
	[ ! -s failed ] || curl -sfS --data-binary @failed "$iidy/batch/lists/$list?action=increment&claim=$claim" || : # not counted is tried once more
	curl -sfS --retry 5 -X DELETE "$iidy/batch/lists/$list?min_attempts=5" || :
done
