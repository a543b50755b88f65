#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Pacemaker and corosync on two nodes, each with namespaces of its own: they run the resource agent and a program that
writes. The node that has the set is lost at once, with all its processes; the cluster continues on the other one.
docs/testing.md describes how to run it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

from support import TOOL, WRITER, MirrorTest, execute, stop, wait_until

AGENT = pathlib.Path(os.environ["MIRROR_AGENT"])
LIMIT_S = 120
NEEDED = ("corosync", "pacemakerd", "cibadmin", "crm_attribute", "crm_mon", "unshare", "nsenter", "ip")
NODES = {"one": 1, "two": 2}

COROSYNC = """totem {{
  version: 2
  cluster_name: mirror
  transport: udpu
  crypto_cipher: none
  crypto_hash: none
  token: 3000
}}
nodelist {{
{nodes}}}
quorum {{
  provider: corosync_votequorum
  two_node: 1
  wait_for_all: 0
}}
logging {{
  to_stderr: no
  to_syslog: no
  to_logfile: yes
  logfile: {place}/corosync.log
}}
"""

CIB = """<cib crm_feature_set="3.10.0" validate-with="pacemaker-3.7" epoch="1" num_updates="0" admin_epoch="0">
<configuration>
<crm_config><cluster_property_set id="cluster">
<nvpair id="fencing" name="stonith-enabled" value="false"/>
<nvpair id="wait" name="dc-deadtime" value="4s"/>
<nvpair id="delay" name="transition-delay" value="0s"/>
</cluster_property_set></crm_config>
<nodes/>
<resources>
<clone id="log-set-clone">
<meta_attributes id="log-set-meta"><nvpair id="promotable" name="promotable" value="true"/>
<nvpair id="notify" name="notify" value="true"/></meta_attributes>
<primitive id="log-set" class="ocf" provider="librpma" type="rpma-mirror">
<instance_attributes id="log-set-parameters"><nvpair id="set" name="set" value="/run/rpma/set"/>
<nvpair id="tool" name="tool" value="{tool}"/></instance_attributes>
<operations><op id="promote" name="promote" interval="0" timeout="120s"/>
<op id="promoted" name="monitor" interval="3s" role="Promoted" timeout="60s"/>
<op id="unpromoted" name="monitor" interval="4s" role="Unpromoted" timeout="60s"/></operations>
</primitive>
</clone>
<primitive id="log-program" class="ocf" provider="heartbeat" type="anything">
<instance_attributes id="log-program-parameters"><nvpair id="binfile" name="binfile" value="/run/rpma/program"/>
<nvpair id="pidfile" name="pidfile" value="/run/log-program.pid"/>
</instance_attributes>
</primitive>
</resources>
<constraints>
<rsc_colocation id="with" rsc="log-program" with-rsc="log-set-clone" with-rsc-role="Promoted" score="INFINITY"/>
<rsc_order id="after" first="log-set-clone" first-action="promote" then="log-program" then-action="start" kind="Mandatory"/>
</constraints>
</configuration>
<status/>
</cib>
"""

# Stores the current content, then flushes increasing numbers. Stores the first number and the code of each flush.
PROGRAM = """#!/bin/bash
head -c 13 {place}/home >{place}/found
first=$(date +%s%3N)
echo "$first" >{place}/first
exec "{writer}" /run/rpma/set < <(for ((i = first; ; ++i)); do echo $i || exit; sleep 0.05; done) >>{place}/codes 2>&1
"""

# Prepares a machine, on which Pacemaker, corosync and the resource agents have files of their own.
MACHINE = """set -e
mount --make-rprivate /
hostname {name}
ip link set lo up
for directory in /dev/shm /run /var/lib/pacemaker /var/lib/corosync /var/log /etc/corosync; do
    mount -t tmpfs -o mode=755 tmpfs $directory
done
chmod 1777 /dev/shm
cp -a /usr/lib/ocf/resource.d /run/agents
mkdir -p /run/agents/librpma /run/rpma /run/crm /var/log/pacemaker /var/log/cluster
mkdir /var/lib/pacemaker/cib /var/lib/pacemaker/pengine /var/lib/pacemaker/blackbox /var/lib/pacemaker/cores
cp {agent} /run/agents/librpma/
mount --bind /run/agents /usr/lib/ocf/resource.d
cp {place}/set {place}/key {place}/program /run/rpma/
cp {place}/cib.xml /var/lib/pacemaker/cib/
cp {place}/corosync.conf /etc/corosync/
chmod 600 /run/rpma/key /var/lib/pacemaker/cib/cib.xml
chown -R hacluster:haclient /var/lib/pacemaker /var/log/pacemaker /run/crm
echo ready
read -r begin
corosync
for i in $(seq 600); do corosync-quorumtool -s >/dev/null 2>&1 && break; sleep 0.1; done
export PCMK_logfile=/var/log/pacemaker/pcmk.log
exec pacemakerd >{place}/pacemaker.log 2>&1
"""


def sh(*words):
    result = execute(words, timeout=LIMIT_S)
    result.check_returncode()
    return result.stdout


class Machine:
    """Namespaces of one machine. The end of its first process ends all others."""

    def __init__(self, place, name):
        self.name = name
        self.place = place
        self.number = NODES[name]
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c",
             MACHINE.format(place=place, name=name, agent=AGENT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            print("skipped: no machine can be made here: a mount or network namespace is refused")
            sys.exit(77)
        child = sh("ps", "-o", "pid=", "--ppid", self.process.pid).split()
        self.first = int(child[0])
        sh("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "up0", "netns", self.first)
        sh("ip", "link", "set", f"to-{name}", "master", "switch", "up")
        self.run("ip", "address", "add", f"10.78.0.{self.number}/24", "dev", "up0")
        self.run("ip", "link", "set", "up0", "up")

    def run(self, *words):
        return sh("nsenter", "--all", "-t", self.first, *words)

    def begin(self):
        self.process.stdin.write("begin\n")
        self.process.stdin.flush()

    def lose(self):
        os.kill(self.first, 9)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Cluster(MirrorTest):
    def setUp(self):
        super().setUp()
        sh("ip", "link", "set", "lo", "up")
        sh("ip", "link", "add", "switch", "type", "bridge")
        sh("ip", "address", "add", "10.78.0.100/24", "dev", "switch")
        sh("ip", "link", "set", "switch", "up")

    def machines(self, *targets):
        nodes = "".join(f"  node {{\n    name: {name}\n    nodeid: {number}\n    ring0_addr: 10.78.0.{number}\n  }}\n"
                        for name, number in NODES.items())
        machines = []
        for name, number in NODES.items():
            set_file = self.host(number * 5, *targets)
            place = set_file.parent
            (place / "cib.xml").write_text(CIB.format(tool=TOOL))
            (place / "corosync.conf").write_text(COROSYNC.format(nodes=nodes, place=place))
            (place / "program").write_text(PROGRAM.format(writer=WRITER, place=place))
            (place / "program").chmod(0o755)
            if not machines:
                self.done("create", set_file)
            machines.append(Machine(place, name))
            self.addCleanup(lambda machine=machines[-1]: machine.process.poll() is None and machine.lose())
        return machines

    def wait_for(self, at, pattern):
        until = time.monotonic() + LIMIT_S
        while True:
            result = execute(["nsenter", "--all", "-t", at.first, "crm_mon", "-1", "-r"], timeout=LIMIT_S)
            if re.search(pattern, result.stdout):
                return result.stdout
            self.assertLess(time.monotonic(), until, f"no {pattern!r} in\n{result.stdout}{result.stderr}")
            time.sleep(0.2)

    @staticmethod
    def codes(machine):
        """Returns the lines of the writer's codes. The last one may be incomplete."""
        codes = machine.place / "codes"
        return codes.read_text().split("\n") if codes.exists() else []

    def test_the_cluster_continues_at_the_other_node(self):
        targets = [self.target("10.78.0.100"), self.target("10.78.0.100")]
        machines = self.machines(*targets)
        for machine in machines:
            machine.begin()
        text = self.wait_for(machines[0], r"log-program\s.*Started (one|two)")
        lost, other = machines if "Started one" in text else machines[::-1]
        self.assertRegex(text, rf"Promoted: \[ {lost.name} \]")
        self.assertRegex(text, rf"Unpromoted: \[ {other.name} \]")
        wait_until(lambda: len(self.codes(lost)) >= 20)
        # A target leaves the set, and is silent from then on.
        targets[1].kill()
        left = len(self.codes(lost))
        wait_until(lambda: len(self.codes(lost)) >= left + 20)
        targets[1].start()
        stop(targets[1].process)
        lost.lose()
        started = time.monotonic()
        codes = self.codes(lost)
        self.assertEqual(codes[0], "open")
        self.assertEqual(set(codes[1:-1]), {"0"})
        last = int((lost.place / "first").read_text()) + len(codes) - 3
        text = self.wait_for(other, rf"log-program\s.*Started {other.name}")
        self.assertRegex(text, rf"Promoted: \[ {other.name} \]")
        print(f"the other node had the set, and its program ran, after {time.monotonic() - started:.1f} s")
        found = int((other.place / "found").read_text())
        self.assertIn(found, (last, last + 1))
        # The writer there flushes, too.
        wait_until(lambda: len(self.codes(other)) >= 5)
        self.assertEqual(self.codes(other)[:4], ["open", "0", "0", "0"])


if __name__ == "__main__":
    missing = [program for program in NEEDED if not shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin")]
    if missing or os.geteuid() != 0:
        print(f"skipped: {', '.join(missing) or 'root'} is missing: install corosync, pacemaker, pacemaker-cli-utils and "
              "resource-agents, and run as root")
        sys.exit(77)
    if "MIRROR_OWN_NETWORK" not in os.environ:
        os.environ["MIRROR_OWN_NETWORK"] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    unittest.main()
