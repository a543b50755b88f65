#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests that programs_lib.sh prints the output of a program that hangs and a message, and ends the test.
here=$(dirname "$0")
. "$here/script_lib.sh"
make_work
mkdir "$work/programs" "$work/work"
# Replaces the launcher: 'run PROGRAM' prints a line, then exits or hangs.
cat >"$work/launcher" <<'LAUNCHER'
#!/bin/sh
echo "$2 has begun"
[ "$2" = hangs ] && exec sleep 100
exit 0
LAUNCHER
for program in launcher programs/hangs programs/ends; do
    [ -e "$work/$program" ] || echo '#!/bin/sh' >"$work/$program"
    chmod +x "$work/$program"
done

# Runs the commands as a test does, with a limit of 1 s. Stores the output and the exit code.
attempt() {
    (
        PATH=$work/programs:$PATH PROGRAM_LIMIT_S=1
        softrdma=$work/launcher lane=loopback at_server= address=127.0.0.1 address6=::1 failures=0 ran=0
        work=$work/work
        . "$here/programs_lib.sh"
        listens() { true; }
        eval "$1"
        echo "continued"
        exit 0
    ) >"$work/out" 2>&1
    code=$?
}

expect() {
    grep -q -e "$1" "$work/out" || fail "'$commands' does not print \"$1\":" "$work/out"
}

for commands in 'alone hangs' 'both hangs // ends' 'both ends // hangs' 'serving ends // hangs'; do
    attempt "$commands"
    expect 'hangs has begun'
    expect 'timed out after 1 s'
    [ $code -eq 1 ] && ! grep -q 'continued' "$work/out" || fail "'$commands' exits with $code or continues"
done
commands='alone ends; both ends // ends'
attempt "$commands"
expect 'continued'
exit $((failures > 0))
