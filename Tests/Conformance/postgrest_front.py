"""What PostgREST and GoTrue do for this gateway, before a real PostgreSQL, and nothing else.

    postgrest_front.py DSN

PostgREST: one transaction a request, under the role and the claims of the JSON web token; `insert … select … from
json_populate_recordset … on conflict do nothing`; PostgreSQL's own SQLSTATE becomes the status by its documented
table. GoTrue: signing in with a password, and refresh tokens that change with every use. Prints its port, then
answers on 127.0.0.1 until it is ended. POST /faults {"expire": true} makes all access tokens old.
"""

import json
import re
import secrets
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import psycopg
from psycopg import sql

DSN = sys.argv[1]
PASSWORDS = {"gateway@clinic.example": ("correct horse", "11111111-1111-4111-8111-111111111111")}
KEY = "sb_publishable_test"
access: dict[str, str] = {}
refresh: dict[str, str] = {}
used: dict[str, str] = {}
local = threading.local()

STATUSES = [
    ("08", 503), ("09", 500), ("0L", 403), ("0P", 403), ("23503", 409), ("23505", 409), ("25006", 405),
    ("25", 500), ("28", 403), ("2D", 500), ("38", 500), ("39", 500), ("3B", 500), ("40", 500), ("53400", 500),
    ("53", 503), ("54", 500), ("55", 500), ("57", 500), ("58", 500), ("F0", 500), ("HV", 500), ("P0001", 400),
    ("P0", 500), ("XX", 500), ("42883", 404), ("42P01", 404), ("42P17", 500),
]


def connection():
    if getattr(local, "connection", None) is None or local.connection.closed:
        local.connection = psycopg.connect(DSN, autocommit=False)
    return local.connection


class Refusal(Exception):
    def __init__(self, status: int, code: str, message: str, auth: bool = False):
        self.status, self.code, self.message, self.auth = status, code, message, auth


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, document: object = None, headers: dict | None = None) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        try:
            if url.path == "/faults":
                access.clear()
                self.answer(204)
            elif url.path == "/auth/v1/token":
                self.grant(query, json.loads(body))
            elif url.path.startswith("/rest/v1/"):
                self.insert(url.path.removeprefix("/rest/v1/"), query, body)
            else:
                raise Refusal(404, "PGRST125", "Invalid path specified in request URL")
        except Refusal as refusal:
            if refusal.auth:
                self.answer(
                    refusal.status, {"code": refusal.status, "error_code": refusal.code, "msg": refusal.message},
                    {"x-sb-error-code": refusal.code})
            else:
                self.answer(
                    refusal.status,
                    {"code": refusal.code, "message": refusal.message, "details": None, "hint": None})

    def grant(self, query: dict, body: dict) -> None:
        if self.headers.get("apikey") != KEY:
            raise Refusal(401, "no_api_key", "No API key found in request", auth=True)
        if query.get("grant_type") == "password":
            password, owner = PASSWORDS.get(body.get("email"), (None, None))
            if password is None or password != body.get("password"):
                raise Refusal(400, "invalid_credentials", "Invalid login credentials", auth=True)
        else:
            old = body.get("refresh_token", "")
            if old not in refresh:
                word = "refresh_token_already_used" if old in used else "refresh_token_not_found"
                raise Refusal(400, word, "Invalid Refresh Token", auth=True)
            owner = used[old] = refresh.pop(old)
        token, next_token = secrets.token_hex(32), secrets.token_hex(8)
        access[token], refresh[next_token] = owner, owner
        self.answer(200, {
            "access_token": token, "token_type": "bearer", "expires_in": 3600, "expires_at": 0,
            "refresh_token": next_token, "user": {"id": owner}})

    def owner(self) -> str:
        bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if bearer not in access:
            raise Refusal(401, "PGRST303", "JWT expired")
        return access[bearer]

    def insert(self, table: str, query: dict, body: bytes) -> None:
        owner = self.owner()
        # PostgREST takes names in quotes, too.
        columns = [name.strip('"') for name in query["columns"].split(",")] if "columns" in query else None
        try:
            rows = json.loads(body)
        except ValueError:
            raise Refusal(400, "PGRST102", "Empty or invalid json") from None
        columns = columns or sorted({name for row in rows for name in row})
        prefer = [part.strip() for part in self.headers.get("Prefer", "").split(",")]
        conflict = sql.SQL("")
        applied = [part for part in prefer if part.startswith("return=")]
        if "on_conflict" in query and "resolution=ignore-duplicates" in prefer:
            keys = sql.SQL(", ").join(map(sql.Identifier, query["on_conflict"].split(",")))
            conflict = sql.SQL("on conflict ({}) do nothing").format(keys)
            applied.insert(0, "resolution=ignore-duplicates")
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        statement = sql.SQL(
            "insert into {table} ({names}) select {names} from json_populate_recordset(null::{table}, %s) {conflict}"
        ).format(table=sql.Identifier(table), names=names, conflict=conflict)
        db = connection()
        try:
            with db.cursor() as cursor:
                known = cursor.execute(
                    "select column_name from information_schema.columns where table_name = %s", [table]).fetchall()
                if not known:
                    raise Refusal(404, "PGRST205", f"Could not find the table '{table}' in the schema cache")
                for column in columns:
                    if (column,) not in known:
                        raise Refusal(400, "PGRST204", f"Could not find the '{column}' column of '{table}'")
                claims = json.dumps({"sub": owner, "role": "authenticated"})
                cursor.execute(
                    "select set_config('role', 'authenticated', true), set_config('request.jwt.claims', %s, true)",
                    [claims])
                cursor.execute(statement, [json.dumps(rows)])
            db.commit()
        except psycopg.Error as error:
            db.rollback()
            state = error.sqlstate or "08006"
            status = 403 if state == "42501" else next(
                (status for prefix, status in STATUSES if state.startswith(prefix)), 400)
            raise Refusal(status, state, re.sub(r"\s+", " ", str(error).split("\n")[0])) from None
        except Refusal:
            db.rollback()
            raise
        headers = {"Preference-Applied": ", ".join(applied)} if applied else {}
        self.answer(201, headers=headers)

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
signal.pause()
