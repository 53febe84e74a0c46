"""A temporary PostgreSQL server with its own port and data folder, for tests and for the documentation's gallery."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

#: Who runs the server if we are root, which it refuses to be run by.
USERS = ("postgres", "nobody")
#: With what a URL must quote.
PASSWORD = "p@ss/w:rd %"


class UnavailableError(RuntimeError):
    """No server can be started on this machine."""


def server_commands() -> Path | None:
    """Return the folder of initdb and postgres, which Debian does not put on the path; None if there is none."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    return max(found, key=lambda path: float(path.parent.name), default=None)


def _user() -> dict[str, int]:
    """Return options of subprocess: another user if this process runs as root."""
    if os.geteuid() != 0:
        return {}
    for name in USERS:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_uid, "group": found.pw_gid}
    raise UnavailableError(f"As root, a PostgreSQL server needs a user of its own. Create one: {' or '.join(USERS)}.")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Server:
    """A server that can be stopped and restarted.

    Attributes:
        port: on 127.0.0.1.
        password: of the user squad.
    """

    def __init__(self, commands: Path, folder: Path, user: dict[str, int]) -> None:
        self.port, self.password = _free_port(), PASSWORD
        options = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "", "fsync": "off"}
        self._command = [commands / "postgres", "-D", folder / "data", *(f"--{k}={v}" for k, v in options.items())]
        self._folder, self._user = folder, user
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it accepts connections."""
        log = self._folder / "log"
        with log.open("a") as out:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                stdout=out,
                stderr=subprocess.STDOUT,
                **self._user,  # type: ignore[call-overload]
            )
        _wait(self, self._process, log)

    def stop(self) -> None:
        """Stop at once, which closes all connections."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def url(self, database: str = "postgres", password: str | None = PASSWORD) -> str:
        """Return the URL of a database; None leaves the password to PGPASSWORD."""
        secret = "" if password is None else f":{quote(password, safe='')}"
        return f"postgresql://squad{secret}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """Create an empty database and return its URL."""
        import psycopg

        name = f"study_{secrets.token_hex(4)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)


@contextmanager
def running() -> Iterator[Server]:
    """Run a server inside the block.

    Raises:
        UnavailableError: PostgreSQL is not installed, or no user may run it.
    """
    commands = server_commands()
    if commands is None:
        raise UnavailableError("The server of PostgreSQL is not installed. Install it: Debian's package postgresql.")
    user = _user()
    # Not pytest's folder, which is closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="squad-postgres-"))
    try:
        if user:
            os.chown(folder, user["user"], user["group"])
        secret = folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        data = folder / "data"
        quiet = {"cwd": folder, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **user}
        made = subprocess.run(
            [commands / "initdb", "-D", data, "-U", "squad", "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync"],
            check=False,
            **quiet,  # type: ignore[call-overload]
        )
        assert made.returncode == 0, made.stdout
        server = Server(commands, folder, user)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(server: Server, process: "subprocess.Popen[bytes]", log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(server.url(), connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
