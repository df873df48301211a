"""What a Cloud Firestore does for this gateway and its reader, by the public text of its REST interface, and nothing
else: commit, get and list of documents, under deploy/firebase/firestore.rules.

Google's own generated messages read each request and write each answer, so that what is not theirs is refused.
"""

import re
from datetime import datetime, timezone
from pathlib import Path
from threading import Lock

from google.cloud.firestore_v1 import types
from google.protobuf import json_format

RULES = Path(__file__).parents[2] / "deploy/firebase/firestore.rules"
WRITES_MAX = 500
CODES = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ALREADY_EXISTS"}
OPERATIONS = {"read": {"get", "list"}, "write": {"create", "update", "delete"}}


class Refusal(Exception):
    def __init__(self, status: int, message: str, word: str = ""):
        self.status, self.message, self.word = status, message, word or CODES[status]

    def document(self) -> dict:
        return {"error": {"code": self.status, "message": self.message, "status": self.word}}


class Rules:
    """Of the language of rules what ours use: nested matches, wildcards, and conditions on the user."""

    def __init__(self, text: str):
        self.allows = []
        text = re.sub(r"//.*", "", text)
        stack = []
        for match in re.finditer(r"match\s+(\S+)\s*\{|allow\s+([\w,\s]+?):\s*if\s+([^;]+);|service\s+\S+\s*\{|\}", text):
            path, operations, condition = match.groups()
            if path:
                stack.append(path)
            elif operations:
                names = {name.strip() for name in operations.split(",")}
                for name in list(names):
                    names |= OPERATIONS.get(name, set())
                self.allows.append((self.pattern("".join(stack)), names, self.condition(condition)))
            elif match.group().startswith("service"):
                stack.append("")
            else:
                stack.pop()
        if stack or not self.allows:
            raise ValueError("the rules cannot be read")

    @staticmethod
    def pattern(path: str):
        path = re.sub(r"/\{(\w+)=\*\*\}", r"(?P<\1>(?:/[^/]+)*)", path)
        return re.compile(re.sub(r"/\{(\w+)\}", r"/(?P<\1>[^/]+)", path))

    @staticmethod
    def condition(text: str):
        source = text.replace("&&", " and ").replace("||", " or ").replace("null", "None")
        return compile(" ".join(source.split()), "rules", "eval")

    def allow(self, operation: str, path: str, uid) -> bool:
        class Request:
            auth = type("Auth", (), {"uid": uid}) if uid else None

        for pattern, names, condition in self.allows:
            match = pattern.fullmatch(path)
            if match and operation in names and eval(
                    condition, {"__builtins__": {}}, match.groupdict() | {"request": Request}):
                return True
        return False


class Store:
    def __init__(self, rules: Path = RULES):
        self.rules = Rules(rules.read_text())
        self.documents: dict[str, dict] = {}
        self.lock = Lock()

    def answer(self, method: str, path: str, query: dict, body: bytes, uid) -> tuple[int, dict]:
        """`uid` is the user; None without one; True for who passes by the rules."""
        try:
            database, _, place = path.removeprefix("/v1/").partition("/documents")
            if not re.fullmatch(r"projects/[a-z0-9-]+/databases/\(default\)", database):
                raise Refusal(404, f"The database {database} does not exist")
            if method == "POST" and place == ":commit":
                return 200, self.commit(database, body, uid)
            if method == "GET":
                return 200, self.read(f"{database}/documents{place}", query, uid)
            raise Refusal(404, "Not found")
        except Refusal as refusal:
            return refusal.status, refusal.document()

    def check(self, operation: str, name: str, uid) -> None:
        if uid is True:
            return
        path = "/" + re.sub(r"^projects/[^/]+/", "", name)
        if not self.rules.allow(operation, path, uid):
            raise Refusal(403, "Missing or insufficient permissions.")

    def commit(self, database: str, body: bytes, uid) -> dict:
        try:
            request = types.CommitRequest.from_json(body.decode("ascii"), ignore_unknown_fields=False)
        except (json_format.ParseError, ValueError) as error:
            raise Refusal(400, f"Invalid JSON payload received. {error}") from None
        if len(request.writes) > WRITES_MAX:
            raise Refusal(400, f"maximum {WRITES_MAX} writes allowed per request")
        now = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
        with self.lock:
            new = {}
            for write in request.writes:
                name = write.update.name or write.delete
                if not re.fullmatch(re.escape(database) + r"/documents(/[^/]+/[^/]+)+", name) or "/__" in name:
                    raise Refusal(400, f"Document name \"{name}\" is not valid")
                there = new.get(name, self.documents.get(name)) is not None
                if "exists" in write.current_document and write.current_document.exists != there:
                    raise Refusal(409, f"Document already exists: {name}") if there else Refusal(
                        404, f"No document to update: {name}")
                if write.delete:
                    self.check("delete", name, uid)
                    new[name] = None
                else:
                    self.check("update" if there else "create", name, uid)
                    document = json_format.MessageToDict(types.Document.pb(write.update))
                    created = (self.documents.get(name) or {}).get("createTime", now)
                    new[name] = document | {"createTime": created, "updateTime": now}
            # All of it, or nothing.
            for name, document in new.items():
                if document is None:
                    self.documents.pop(name, None)
                else:
                    self.documents[name] = document
        return {"writeResults": [{"updateTime": now} for _ in request.writes], "commitTime": now}

    def read(self, name: str, query: dict, uid) -> dict:
        parts = name.split("/documents/", 1)[-1].split("/")
        with self.lock:
            if len(parts) % 2 == 0:
                self.check("get", name, uid)
                if name not in self.documents:
                    raise Refusal(404, f"Document \"{name}\" not found.")
                return self.documents[name]
            self.check("list", name + "/any", uid)
            names = sorted(
                one for one in self.documents if one.startswith(name + "/") and "/" not in one[len(name) + 1:])
        start = int(query.get("pageToken") or 0)
        end = start + (int(query.get("pageSize") or 0) or 100)
        found: dict = {"documents": [self.documents[one] for one in names[start:end]]} if names[start:end] else {}
        if end < len(names):
            found["nextPageToken"] = str(end)
        return found
