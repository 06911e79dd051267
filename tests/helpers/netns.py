"""Two hosts on this machine: network namespaces with a link between them, and what can go wrong on
it, made by nft. Needs root, `ip` and `nft`; where they are missing it says so and raises."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from helpers.tools import installed

HERE, THERE = "10.99.0.1", "10.99.0.2"
PORT = 8470
OF_SERVICE = f"tcp sport {PORT}"
# What is wrong: the chain of the service's host and the rule in it.
FAULTS = {
    "a fifth of the packets is lost": ("come", "numgen random mod 100 lt 20 drop"),
    "answers are lost": ("go", f"{OF_SERVICE} ip length gt 100 drop"),
    "nothing comes back": ("go", f"{OF_SERVICE} drop"),
    "nothing gets there": ("come", f"tcp dport {PORT} drop"),
    "connections are reset": ("come", f"tcp dport {PORT} reject with tcp reset"),
}
DOWN = "the link is down"


class Hosts(NamedTuple):
    """Names of the two namespaces; the service runs in the second."""

    client: str
    service: str

    def run(self, *words: str) -> None:
        """A command of `nft` or `ip` in the service's host."""
        _run("ip", "netns", "exec", self.service, *words)

    def hurt(self, what: str) -> None:
        """Let it go wrong so, until `heal`."""
        if what == DOWN:
            self.run("ip", "link", "set", "v1", "down")
        else:
            chain, rule = FAULTS[what]
            self.run("nft", f"add rule inet f {chain} {rule}")

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self.run("ip", "link", "set", "v1", "up")
        self.run("nft", "flush chain inet f come; flush chain inet f go")


@contextmanager
def two_hosts() -> Iterator[Hosts]:
    """The namespaces, removed in the end."""
    missing = [name for name in ("ip", "nft") if installed(name) is None]
    if missing or os.geteuid() != 0:
        raise RuntimeError(f"two hosts need root, ip and nft; here: {missing or 'no root'}")
    hosts = Hosts(f"fp-a-{os.getpid()}", f"fp-b-{os.getpid()}")
    try:
        for name in hosts:
            _run("ip", "netns", "add", name)
        _run("ip", "link", "add", "v0", "netns", hosts.client, "type", "veth",
             "peer", "name", "v1", "netns", hosts.service)  # fmt: skip
        for name, link, address in ((hosts.client, "v0", HERE), (hosts.service, "v1", THERE)):
            _run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", link)
            for one in (link, "lo"):
                _run("ip", "-n", name, "link", "set", one, "up")
        hosts.run("nft", "add table inet f; "
                  "add chain inet f come { type filter hook input priority 0; }; "
                  "add chain inet f go { type filter hook output priority 0; }")  # fmt: skip
        yield hosts
    finally:
        for name in hosts:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
