#!/usr/bin/env python3
"""Judges the control socket of a daemon that runs by docs/api.yaml, with schemathesis.

    control_api.py SOCKET DIRECTORY     exit 1 and what was wrong, if anything was

Requests are made from the document, right ones and wrong ones, the same in every run; each answer must be of a status, a type and a schema
that the document has, wrong requests must be refused, and no answer may be a server error. DIRECTORY is where the daemon may write files that it
is asked to deliver into. Run it with the Python that Tests/Conformance/setup prints.
"""

import asyncio
import json
import os
import pathlib
import subprocess
import sys
import threading

import yaml

HERE = pathlib.Path(__file__).resolve().parent
CHECKS = [
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_schema_conformance", "negative_data_rejection", "unsupported_method",
    "allow_header_conformance",
]
# Requests made at random for an operation, beside those made of each bound of each field.
EXAMPLES = 20
SEED = 1
# A stream has no end, and no answer to compare: LivePageTests and HostileClientTests read it.
STREAMS = ["/v1/live"]


def strict(document):
    """The document, with no field in an answer that it does not name. For clients more may appear; here it would be drift."""
    def close(schema):
        if isinstance(schema, dict):
            if "properties" in schema:
                schema.setdefault("additionalProperties", False)
            for value in schema.values():
                close(value)
        elif isinstance(schema, list):
            for value in schema:
                close(value)

    for path in document["paths"].values():
        for operation in path.values():
            close(operation["responses"])
    close(document["components"]["responses"])
    for name, schema in document["components"]["schemas"].items():
        # What is in requests may have more in it: the gateway ignores it.
        if not name.endswith("Request"):
            close(schema)
    return document


class Forwarder:
    """A port of this machine that leads to a Unix socket: schemathesis knows none."""

    def __init__(self, socket):
        self.socket = socket
        self.loop = asyncio.new_event_loop()
        self.server = self.loop.run_until_complete(
            asyncio.start_server(self.connected, "127.0.0.1", 0))
        self.port = self.server.sockets[0].getsockname()[1]
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    async def connected(self, reader, writer):
        try:
            inner_reader, inner_writer = await asyncio.open_unix_connection(self.socket)
            await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))
        except OSError:
            writer.close()


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def main():
    socket, directory = sys.argv[1:]
    document = strict(yaml.safe_load((HERE.parent.parent / "docs" / "api.yaml").read_text()))
    written = pathlib.Path(directory) / "api.json"
    written.write_text(json.dumps(document))
    forwarder = Forwarder(socket)
    words = [
        pathlib.Path(sys.executable).parent / "schemathesis", "--no-color", "run", written,
        "--url", f"http://127.0.0.1:{forwarder.port}", "--checks", ",".join(CHECKS),
        "--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", str(SEED),
        "--generation-deterministic", "--no-shrink",
        "--continue-on-failure", "--request-timeout", "30", "--warnings", "off",
        "--suppress-health-check", "all", "--workers", "1",
    ]
    for path in STREAMS:
        words += ["--exclude-path", path]
    outcome = subprocess.run(
        words, cwd=directory,
        env={**os.environ, "PYTHONPATH": str(HERE), "SCHEMATHESIS_HOOKS": "control_api_hooks",
             "PYTHONUTF8": "1"})
    return outcome.returncode


if __name__ == "__main__":
    sys.exit(main())
