"""A bad network before a broker, and a subscriber behind it: paho-mqtt hears what the broker hands on.

    mqtt_front.py BROKER_PORT SEED

Prints its port as the only line, then answers on 127.0.0.1 until it is ended.
MQTT connections to it are passed on to the broker. With a SEED other than 0, each is cut sooner or later, after
so many bytes of either direction, and what was under way is lost.
GET /counts tells, once all that the broker has acknowledged has arrived:
    {"stored": distinct samples, "repeated": how many came again, "backward": latest heart rates older than the one
     before, "unreadable": messages that are none of the gateway's}
GET /topics tells what is retained now: {"topic": "payload"}.
"""

import json
import random
import signal
import socket
import sys
import threading
import time
import uuid
from datetime import datetime

import paho.mqtt.client as mqtt

BROKER, SEED = int(sys.argv[1]), int(sys.argv[2])
# A connection ends after at most so many bytes of the gateway, or of the broker.
REQUEST_BYTES_MAX, ANSWER_BYTES_MAX = 400_000, 12_000
MARK = "front/mark"

seen: set[str] = set()
counts = {"stored": 0, "repeated": 0, "backward": 0, "unreadable": 0}
latest: dict[str, datetime] = {}
marks: dict[str, threading.Event] = {}
chance = random.Random(SEED)


def heard(client, _, message) -> None:
    if message.topic == MARK:
        marks.pop(message.payload.decode(), threading.Event()).set()
        return
    kind = message.topic.rsplit("/", 1)[-1]
    try:
        if kind in ("heart-rate", "rr-interval"):
            count([json.loads(message.payload)])
        elif kind == "samples":
            count(json.loads(message.payload))
        elif kind == "latest":
            measured = datetime.fromisoformat(json.loads(message.payload)["time"])
            counts["backward"] += measured < latest.get(message.topic, measured)
            latest[message.topic] = measured
        elif kind == "status":
            counts["unreadable"] += message.payload not in (b"online", b"offline")
        elif kind not in ("probe", "config"):
            counts["unreadable"] += 1
    except (ValueError, KeyError, TypeError):
        counts["unreadable"] += 1


def count(samples: list) -> None:
    for sample in samples:
        identity = str(uuid.UUID(sample["id"]))
        datetime.fromisoformat(sample["time"])
        counts["repeated" if identity in seen else "stored"] += 1
        seen.add(identity)


def wait_for_all(client) -> None:
    """The broker hands on in order: what it acknowledged before the mark arrives before the mark."""
    mark = str(uuid.uuid4())
    marks[mark] = arrived = threading.Event()
    client.publish(MARK, mark, qos=1)
    if not arrived.wait(60):
        raise TimeoutError("the broker does not hand on")


def retained() -> dict[str, str]:
    found: dict[str, str] = {}
    done = threading.Event()
    reader = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)

    def on_message(_, __, message) -> None:
        if message.topic == MARK:
            done.set()
        elif message.retain:
            found[message.topic] = message.payload.decode()

    reader.on_message = on_message
    reader.on_subscribe = lambda *_: reader.publish(MARK, "read", qos=1)
    reader.connect("127.0.0.1", BROKER)
    reader.subscribe([("#", 1)])
    reader.loop_start()
    if not done.wait(60):
        raise TimeoutError("the broker does not hand on")
    reader.disconnect()
    reader.loop_stop()
    return found


def serve(client_socket: socket.socket, subscriber) -> None:
    try:
        if client_socket.recv(1, socket.MSG_PEEK) == b"G":
            request = client_socket.recv(4096)
            if b"/topics" in request:
                body = retained()
            else:
                wait_for_all(subscriber)
                body = counts
            content = json.dumps(body).encode()
            client_socket.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n" % len(content) + content)
        else:
            relay(client_socket)
    except OSError:
        pass
    finally:
        client_socket.close()


def relay(gateway: socket.socket) -> None:
    broker = socket.create_connection(("127.0.0.1", BROKER))
    limits = [None, None]
    if SEED:
        side = chance.randrange(2)
        limits[side] = chance.randrange([REQUEST_BYTES_MAX, ANSWER_BYTES_MAX][side])

    def pump(source: socket.socket, sink: socket.socket, limit: int | None) -> None:
        try:
            while data := source.recv(65_536):
                if limit is not None and len(data) > limit:
                    sink.sendall(data[:limit])
                    break
                sink.sendall(data)
                limit = None if limit is None else limit - len(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    back = threading.Thread(target=pump, args=(broker, gateway, limits[1]), daemon=True)
    back.start()
    pump(gateway, broker, limits[0])
    back.join()
    broker.close()


subscriber = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
subscriber.on_message = heard
ready = threading.Event()
subscriber.on_subscribe = lambda *_: ready.set()
for _ in range(300):
    try:
        subscriber.connect("127.0.0.1", BROKER)
        break
    except ConnectionRefusedError:  # it has just been started
        time.sleep(0.1)
subscriber.subscribe([("#", 1)])
subscriber.loop_start()
if not ready.wait(60):
    sys.exit("the broker does not take the subscription")
listener = socket.create_server(("127.0.0.1", 0))


def accept() -> None:
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0], subscriber), daemon=True).start()


threading.Thread(target=accept, daemon=True).start()
print(listener.getsockname()[1], flush=True)
signal.pause()
