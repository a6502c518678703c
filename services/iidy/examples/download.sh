#!/bin/sh
# Downloads the files whose names stand on standard input, a name a line, until none is left: retries what fails, and
# abandons what has failed five times. Stop it at any time and start it again: iidy knows what is done.
#
#   ./download.sh LIST FROM TO < names
#
# A name is a path below FROM, written as in a URL.
#
#   LIST  the name of the list in iidy, such as downloads
#   FROM  where the files are, such as https://example.com/files
#   TO    the folder to put them into
#
# IIDY is the address of iidy, JOBS how many files are fetched at once, PAUSE the seconds between two rounds.
set -eu
list=$1 from=$2
mkdir -p "$3"
to=$(cd "$3" && pwd)
iidy=${IIDY:-http://127.0.0.1:8084}/iidy/v1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# What is there already is not added twice, and keeps its attempts.
curl -sfS --retry 5 --retry-connrefused --data-binary @- "$iidy/batch/lists/$list"

# One file: its name goes to done or to failed.
cat > fetch <<'FETCH'
mkdir -p "$to/$(dirname "$1")"
if curl -sf -o "$to/$1.part" "$from/$1" && mv "$to/$1.part" "$to/$1"; then
	echo "$1" >> "$work/done"
else
	echo "$1" >> "$work/failed"
fi
FETCH
export from to work

while :; do
	: > done
	: > failed
	# The next thousand: "name attempts" a line.
	curl -sfS --retry 5 --retry-connrefused "$iidy/batch/lists/$list?count=1000" > page
	[ -s page ] || break
	sed 's/ [0-9]*$//' page | tr '\n' '\0' | xargs -0 -n 1 -P "${JOBS:-8}" sh fetch
	[ ! -s done ] || curl -sfS --retry 5 --retry-connrefused -X DELETE --data-binary @done "$iidy/batch/lists/$list"
	[ ! -s failed ] || curl -sfS --data-binary @failed "$iidy/batch/lists/$list?action=increment" || : # not counted is tried once more
	curl -sfS --retry 5 -X DELETE "$iidy/batch/lists/$list?min_attempts=5" || :
	[ ! -s failed ] || sleep "${PAUSE:-10}"
done
