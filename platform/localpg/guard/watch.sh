# Stops a server whose owner has died. Standard input: lines from the owner's pipe, the server's process id or "done".
# Arguments: the signal's number, seconds until SIGKILL, a folder to remove afterwards (may be empty).
trap '' HUP INT TERM
pid=
while read -r word; do
	if [ "$word" = done ]; then
		exit 0
	fi
	pid=$word
done
# End of input without "done": the owner is gone.
if [ -n "$pid" ]; then
	kill -"$1" "$pid" 2>/dev/null
	tenths=$(($2 * 10))
	while [ "$tenths" -gt 0 ] && kill -0 "$pid" 2>/dev/null; do
		sleep 0.1
		tenths=$((tenths - 1))
	done
	kill -9 "$pid" 2>/dev/null
fi
if [ -n "$3" ]; then
	rm -rf -- "$3"
fi
exit 0
