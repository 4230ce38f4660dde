"""A Kerberos realm for a test: MIT's KDC from Debian (krb5-kdc, krb5-admin-server), with files of its own.

Invariant: nothing of the machine's own Kerberos is read or changed; stopping leaves no process behind.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

from tests.shared.waiting import wait_until

REALM = "MOLDAU.TEST"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def missing() -> str | None:
    """Why there can be no realm here."""
    absent = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if absent:
        return f"{', '.join(absent)} missing: apt-get install krb5-kdc krb5-admin-server krb5-user"
    try:
        import gssapi  # noqa: F401
    except ImportError:
        return "gssapi is missing: apt-get install libkrb5-dev gcc; pip install gssapi"
    return None


class Realm:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self._port = probe.getsockname()[1]
        self.configuration = directory / "krb5.conf"
        self.environment = os.environ | {
            "PATH": _PATH,
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{directory}/cache",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Realm:
        self.configuration.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " rdns = false\n dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self._port}\n }}\n"
            f"[domain_realm]\n localhost = {REALM}\n"
        )
        (self.directory / "kdc.conf").write_text(
            f"[realms]\n {REALM} = {{\n  database_name = {self.directory}/principal\n"
            f"  key_stash_file = {self.directory}/stash\n  kdc_listen = 127.0.0.1:{self._port}\n"
            f"  kdc_tcp_listen = 127.0.0.1:{self._port}\n  acl_file = {self.directory}/acl\n }}\n"
        )
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        self._process = subprocess.Popen(
            ["krb5kdc", "-n", "-r", REALM], env=self.environment, stdout=subprocess.DEVNULL
        )
        wait_until(self._answers)
        return self

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    def key_table(self, principal: str) -> Path:
        """A file with the key of a principal, which is made."""
        path = self.directory / f"{principal.replace('/', '_')}.keytab"
        self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
        self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(path), principal)
        return path

    def _run(self, *command: str) -> None:
        ended = subprocess.run(command, env=self.environment, capture_output=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
