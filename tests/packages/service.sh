#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs as root in a booted Debian system with the packages: uses the units as an administrator would. The last
# line of its output is "served" on success.
set -eu

fail() {
    echo "FAIL: $1" >&2
    systemctl status --no-pager --full rpmemd >&2 || true
    exit 1
}

property() {
    systemctl show --value --property "$1" rpmemd
}

# Succeeds once the command does, within 30 s.
within_limit() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 150 ] || return 1
        sleep 0.2
    done
}

mirror() {
    rpma-mirror "$@" >/test/mirror.log 2>&1 || fail "rpma-mirror $*: $(cat /test/mirror.log)"
}

systemctl is-enabled --quiet rpmemd && fail "the unit is enabled before it was configured"

# As in rpmemd(1).
install -d -m 755 /etc/rpmemd /etc/rpma
(printf writer:; head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n') >/test/key
install -m 600 /test/key /etc/rpmemd/key
install -m 600 -o rpmemd /test/key /etc/rpmemd/mirror.key
install -d -m 750 -o rpmemd -g rpmemd /var/lib/rpmemd
install -d -m 700 -o rpmemd /srv/pmem
printf 'PMEMPOOLSET\nOPTION NOHDRS\n8M /srv/pmem/log.part\n' >/test/log.set
install -m 600 -o rpmemd /test/log.set /var/lib/rpmemd/log.set
echo RPMEMD_LISTEN=127.0.0.1:7470 >/etc/default/rpmemd
echo 'metrics = 127.0.0.1:9470' >/etc/rpmemd/rpmemd.conf

# The usual limit of the watchdog is too long for a test.
mkdir -p /etc/systemd/system/rpmemd.service.d
printf '[Service]\nWatchdogSec=3\nTimeoutAbortSec=1\n' >/etc/systemd/system/rpmemd.service.d/watchdog.conf
systemctl daemon-reload
systemctl start rpmemd || fail "the unit does not start"
[ "$(ps -o user= -p "$(property MainPID)")" = rpmemd ] || fail "the daemon runs as another user"
printf 'RPMAMIRROR\nlocal 0 /test/home 8M\nkey-file /etc/rpmemd/key\ndevice softrdma\ntarget 1 127.0.0.1:7470 log.set\n' >/test/set
rpma-mirror create /test/set 2>/test/mirror.log && fail "a part in a directory that the unit does not list is created"
grep -q 'Read-only file system' /test/mirror.log || fail "rpma-mirror create: $(cat /test/mirror.log)"
printf '[Service]\nReadWritePaths=/srv/pmem\n' >/etc/systemd/system/rpmemd.service.d/pools.conf
systemctl daemon-reload
systemctl restart rpmemd
mirror create /test/set
python3 -c 'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:9470/metrics", timeout=30).read().decode())' \
    >/test/metrics || fail "the metrics cannot be read"
grep -q '^rpmemd_set_copies_in_sync{set="log.set",copy="1"} 2$' /test/metrics || fail "metrics: $(cat /test/metrics)"
[ "$(stat -c '%U %a' /srv/pmem/log.part)" = "rpmemd 600" ] || fail "the part is accessible to others"

# The watchdog ends a daemon that hangs, and the manager starts another one.
kill -STOP "$(property MainPID)"
ended=$(property MainPID)
restarts=1
restarted() { [ "$(property NRestarts)" = "$restarts" ] && [ "$(property ActiveState)" = active ] && [ "$(property MainPID)" != "$ended" ]; }
within_limit restarted || fail "the watchdog does not restart a stopped daemon"
# The number of restarts has no limit.
while [ "$restarts" -lt 8 ]; do
    ended=$(property MainPID)
    restarts=$((restarts + 1))
    kill -KILL "$ended"
    within_limit restarted || fail "a daemon that was killed $((restarts - 1)) times is not restarted"
done
mirror resync /test/set
mirror verify /test/set

# The disk keeps what was written to it when its service stops.
install -m 600 /test/set /etc/rpma/log.set
systemctl start nbdkit-rpma-mirror@log || fail "the unit of the disk does not start"
head -c 4M /dev/urandom >/test/content
serves() { nbdinfo nbd://127.0.0.1 >/test/nbd.log 2>&1; }
within_limit serves || fail "the disk cannot be reached: $(cat /test/nbd.log)"
nbdcopy /test/content nbd://127.0.0.1 || fail "writing to the disk failed"
systemctl stop nbdkit-rpma-mirror@log || fail "the unit of the disk does not stop"
mirror verify /test/set
systemctl start nbdkit-rpma-mirror@log
within_limit serves || fail "the disk cannot be reached again: $(cat /test/nbd.log)"
nbdcopy nbd://127.0.0.1 /test/read
cmp --bytes=4M /test/read /test/content || fail "the disk has other data"
systemctl stop nbdkit-rpma-mirror@log

systemctl stop rpmemd || fail "the unit does not stop"
[ "$(property Result)" = success ] || fail "the daemon does not end successfully: $(property Result)"
echo RPMEMD_LISTEN=0.0.0.0:7470 >/etc/default/rpmemd
systemctl start rpmemd 2>/dev/null && fail "the unit starts with an address that the daemon rejects"
journalctl --no-pager --unit rpmemd | grep -q 'wildcard address not allowed' || fail "the journal lacks the reason"

for unit in rpmemd nbdkit-rpma-mirror@log; do
    systemd-analyze security --no-pager --threshold=30 "$unit.service" >/test/security.log || fail "exposed: $(cat /test/security.log)"
done
echo served
