"""What Firebase Authentication and a Realtime Database do for this gateway, and nothing else. Without
Firestore only the standard library is used.

    firebase_front.py [RULES]

RULES is a file of security rules (deploy/firebase/database.rules.json if left out), which every request is judged by.
Prints its port, then answers on 127.0.0.1 until it is ended. Below /identitytoolkit.googleapis.com and
/securetoken.googleapis.com it is the Authentication emulator, below /v1/projects a Cloud Firestore
(firestore_store.py), elsewhere the database. A request with
`Authorization: Bearer owner` passes by the rules, as at Firebase's own emulator.
POST /faults {"expire": true} makes all access tokens old; {"forget": true} ends the anonymous users.
"""

import base64
import json
import queue
import re
import secrets
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

RULES = json.loads(Path(
    sys.argv[1] if len(sys.argv) > 1
    else Path(__file__).parents[2] / "deploy/firebase/database.rules.json").read_text())["rules"]
KEY = "AIza-test"
PASSWORDS = {"gateway@clinic.example": ("correct horse", "gatewayUser1")}
access: dict[str, str] = {}
store = None  # made with the first request: it needs more than the standard library
refresh: dict[str, str] = {}
tree: dict = {}
listeners: list[tuple[list[str], queue.Queue]] = []
lock = threading.RLock()


# The tree. A value without children is null, and null is not there.

def at(root, path):
    for part in path:
        root = root.get(part) if isinstance(root, dict) else None
    return root


def put(root: dict, path: list[str], value) -> None:
    if len(path) == 1:
        if value is None or value == {}:
            root.pop(path[0], None)
        else:
            root[path[0]] = value
        return
    child = root.get(path[0])
    if not isinstance(child, dict):
        child = {}
    put(child, path[1:], value)
    put(root, path[:1], child)


# Security rules: of the language what our rules use, made into Python.

class Data:
    def __init__(self, value):
        self.value = value

    def val(self):
        return self.value

    def isNumber(self):
        return isinstance(self.value, (int, float)) and not isinstance(self.value, bool)

    def exists(self):
        return self.value is not None

    def child(self, path):
        return Data(at(self.value, path.split("/")))

    def hasChildren(self, names):
        return isinstance(self.value, dict) and all(name in self.value for name in names)


class User:
    def __init__(self, uid):
        self.uid = uid


def holds(rule, names: dict) -> bool:
    if isinstance(rule, bool):
        return rule
    source = re.sub(r"\$(\w+)", r"_\1", rule)
    for old, new in (("===", "=="), ("!==", "!="), ("&&", " and "), ("||", " or "), ("null", "None")):
        source = source.replace(old, new)
    source = re.sub(r"!(?!=)", " not ", source)
    try:
        return bool(eval(source.strip(), {"__builtins__": {}}, names))
    except (AttributeError, TypeError):
        return False  # such as auth.uid without a user


def walk(path: list[str]):
    """The rules along a path, with what the wildcards stand for."""
    rules, names = RULES, {}
    yield [], rules, dict(names)
    for index, part in enumerate(path):
        wild = next((name for name in rules if name.startswith("$")), None)
        if part in rules:
            rules = rules[part]
        elif wild:
            names[f"_{wild[1:]}"] = part
            rules = rules[wild]
        else:
            return
        yield path[: index + 1], rules, dict(names)


def may(action: str, path: list[str], user, old: dict, new: dict) -> bool:
    for place, rules, names in walk(path):
        names |= {"auth": user, "root": Data(old), "data": Data(at(old, place)), "newData": Data(at(new, place))}
        if action in rules and holds(rules[action], names):
            return True
    return False


def isValid(path: list[str], user, old: dict, new: dict) -> bool:
    def below(place, rules, names) -> bool:
        value = at(new, place)
        if value is None:
            return True
        known = names | {"auth": user, "root": Data(old), "data": Data(at(old, place)), "newData": Data(value)}
        if ".validate" in rules and not holds(rules[".validate"], known):
            return False
        if not isinstance(value, dict):
            return True
        wild = next((name for name in rules if name.startswith("$")), None)
        for part in value:
            if part in rules:
                if not below(place + [part], rules[part], names):
                    return False
            elif wild and not below(place + [part], rules[wild], names | {f"_{wild[1:]}": part}):
                return False
        return True

    for place, rules, names in walk(path):
        known = names | {
            "auth": user, "root": Data(old), "data": Data(at(old, place)), "newData": Data(at(new, place))}
        if at(new, place) is not None and ".validate" in rules and not holds(rules[".validate"], known):
            return False
        if place == path and not below(place, rules, names):
            return False
    return True


class Refusal(Exception):
    def __init__(self, status: int, words: str):
        self.status, self.words = status, words


def token(uid: str) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"sub": uid, "user_id": uid}).encode()).rstrip(b"=").decode()
    made = f"{secrets.token_hex(8)}.{claims}.{secrets.token_hex(16)}"
    access[made] = uid
    return made


def checked(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    for part in parts:
        if re.search(r"[.$#\[\]\x00-\x1f\x7f]", part) or len(part.encode()) > 768:
            raise Refusal(400, "Invalid path: Invalid token in path")
    if len(parts) > 32:
        raise Refusal(400, "Invalid path: too deep")
    return parts


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, document: object = None, silent: bool = False) -> None:
        body = b"" if silent else json.dumps(document).encode()
        self.send_response(status)
        if not silent:
            self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        try:
            if url.path == "/faults":
                self.fail(json.loads(body))
            elif url.path.startswith("/v1/projects/"):
                self.firestore(unquote(url.path), query, body)
            elif "googleapis.com" in url.path:
                self.account(url.path, query, body)
            elif url.path.endswith(".json"):
                self.database(checked(unquote(url.path.removesuffix(".json"))), query, body)
            else:
                raise Refusal(404, "404 Not Found")
        except Refusal as refusal:
            self.answer(refusal.status, {"error": refusal.words})
        except ConnectionError:
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = do

    def fail(self, body: dict) -> None:
        if body.get("expire"):
            access.clear()
        if body.get("forget"):
            refresh.clear()
        self.answer(200, {})

    # Firebase Authentication

    def account(self, path: str, query: dict, body: bytes) -> None:
        def no(word: str) -> None:
            self.answer(400, {"error": {"code": 400, "message": word, "errors": []}})

        if query.get("key") != KEY:
            return no("API key not valid. Please pass a valid API key.")
        if path.endswith("/v1/token"):
            asked = {name: values[0] for name, values in parse_qs(body.decode()).items()}
            uid = refresh.get(asked.get("refresh_token", ""))
            if uid is None:
                return no("INVALID_REFRESH_TOKEN")
            made = token(uid)
            return self.answer(200, {
                "id_token": made, "access_token": made, "expires_in": "3600", "token_type": "Bearer",
                "refresh_token": asked["refresh_token"], "user_id": uid, "project_id": "1"})
        if path.endswith(":signUp"):
            uid = f"anonymous{secrets.token_hex(8)}"
        elif path.endswith(":signInWithPassword"):
            asked = json.loads(body)
            password, uid = PASSWORDS.get(asked.get("email"), (None, None))
            if password is None or password != asked.get("password"):
                return no("INVALID_LOGIN_CREDENTIALS")
        else:
            return self.answer(404, {"error": {"code": 404, "message": "Not Found"}})
        kept = secrets.token_hex(16)
        refresh[kept] = uid
        self.answer(200, {"idToken": token(uid), "refreshToken": kept, "expiresIn": "3600", "localId": uid})

    # Cloud Firestore

    def firestore(self, path: str, query: dict, body: bytes) -> None:
        global store
        with lock:
            if store is None:
                from firestore_store import Store
                store = Store()
        bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
        uid = True if bearer == "owner" else access.get(bearer)
        if bearer and uid is None:
            message = "Missing or invalid authentication."
            return self.answer(401, {"error": {"code": 401, "message": message, "status": "UNAUTHENTICATED"}})
        self.answer(*store.answer(self.command, path, query, body, uid))

    # Realtime Database

    def user(self, query: dict):
        """The user; None without one; True for who passes by the rules."""
        if self.headers.get("Authorization") == "Bearer owner":
            # The Admin SDK may be a user all the same.
            override = json.loads(query.get("auth_variable_override", "null"))
            return User(override["uid"]) if override else True
        if "auth" not in query:
            return None
        uid = access.get(query["auth"])
        if uid is None:
            raise Refusal(401, "Auth token is expired")
        return User(uid)

    def database(self, path: list[str], query: dict, body: bytes) -> None:
        global tree
        user = self.user(query)
        silent = query.get("print") == "silent"
        if self.command == "GET":
            if user is not True and not may(".read", path, user, tree, tree):
                raise Refusal(401, "Permission denied")
            if self.headers.get("Accept") == "text/event-stream":
                return self.stream(path)
            with lock:
                value = at(tree, path)
            if "orderBy" in query and isinstance(value, dict):
                value = inOrder(value, query)
            if query.get("shallow") == "true" and isinstance(value, dict):
                value = dict.fromkeys(value, True)
            return self.answer(200, value)
        try:
            value = None if self.command == "DELETE" else json.loads(body)
        except ValueError:
            raise Refusal(400, "Invalid data; couldn't parse JSON object, array, or value.") from None
        if self.command == "PATCH":
            writes = [(path + checked(name), one) for name, one in value.items()]
        else:
            writes = [(path, value)]
        places = sorted(place for place, _ in writes)
        for one, other in zip(places, places[1:]):
            if other[: len(one)] == one:
                raise Refusal(400, "Invalid data; path is an ancestor of another path")
        with lock:
            new = fork(tree, [place for place, _ in writes])
            for place, one in writes:
                if place:
                    put(new, place, one)
                else:
                    new = one or {}
            for place, _ in writes:
                if user is not True and not (
                        may(".write", place, user, tree, new) and isValid(place, user, tree, new)):
                    raise Refusal(401, "Permission denied")
            tree = new
            for place, one in writes:
                publish(place)
        self.answer(204 if silent else 200, value, silent)

    def stream(self, path: list[str]) -> None:
        events: queue.Queue = queue.Queue()
        with lock:
            listeners.append((path, events))
            events.put(at(tree, path))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.close_connection = True
        try:
            while True:
                try:
                    data = json.dumps({"path": "/", "data": events.get(timeout=10)})
                    self.wfile.write(f"event: put\ndata: {data}\n\n".encode())
                except queue.Empty:
                    self.wfile.write(b"event: keep-alive\ndata: null\n\n")
        except OSError:
            pass
        finally:
            with lock:
                listeners.remove((path, events))

    def log_message(self, *_: object) -> None:
        pass


def inOrder(value: dict, query: dict) -> dict:
    """Children by their keys, the one order that needs no index: from startAt on, and the last limitToLast of them."""
    if query["orderBy"] != '"$key"':
        raise Refusal(400, "Index not defined, add \".indexOn\"")
    try:
        start, most = json.loads(query.get("startAt", '""')), int(query.get("limitToLast", len(value)))
    except ValueError:
        raise Refusal(400, "Constraint index field must be a JSON primitive") from None
    return {key: value[key] for key in sorted(key for key in value if key >= start)[-most:]}


def fork(root: dict, places: list[list[str]]) -> dict:
    """A copy of the branches that will be written; the others are shared with the tree before."""
    copy = dict(root)
    done: set[tuple[str, ...]] = set()
    for place in places:
        here = copy
        for depth, part in enumerate(place[:-1]):
            child = here.get(part)
            key = tuple(place[: depth + 1])
            if not isinstance(child, dict):
                break
            if key not in done:
                done.add(key)
                child = here[part] = dict(child)
            here = child
    return copy


def publish(place: list[str]) -> None:
    for path, events in listeners:
        if place[: len(path)] == path or path[: len(place)] == place:
            events.put(at(tree, path))


server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
server.daemon_threads = True
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
signal.pause()
