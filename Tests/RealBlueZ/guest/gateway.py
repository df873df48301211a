"""The gateway under test: the real binary as daemon and as command line."""
import http.client
import json
import os
import socket
import subprocess
import time

from world import EXCHANGE, Store, until

STATE = "/run/gateway"
LOG = EXCHANGE + "/gateway.log"
# Of the program under emulation, with a cold cache, on a busy machine.
START_SECONDS_MAX = 60
# Below the default: each look at the store waits for the group commit.
COMMIT_SECONDS = 2
# SIGTERM to exit.
STOP_SECONDS_MAX = 5
# Pairing, with a person to be asked.
POST_SECONDS_MAX = 120


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, seconds_max):
        super().__init__("localhost", timeout=seconds_max)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Gateway:
    def __init__(self, binary, state=STATE):
        self.binary = binary
        os.makedirs(state, mode=0o700, exist_ok=True)
        configuration = state + "/config.yaml"
        open(configuration, "a").close()
        self.socket = state + "/control.sock"
        self.environment = {
            **os.environ, "EDGE_GATEWAY_CONFIG": configuration, "EDGE_GATEWAY_STATE": state,
            "EDGE_GATEWAY_SOCKET": self.socket, "EDGE_GATEWAY_CLOCK_TRUST": "always",
            "EDGE_GATEWAY_STORAGE_COMMIT_SECONDS": str(COMMIT_SECONDS)}
        self.store = Store(state + "/queue.sqlite")
        self.process = None

    # MARK: The daemon

    def start(self):
        log = open(LOG, "a")
        self.process = subprocess.Popen(
            [self.binary, "run"], env=self.environment, stdout=log, stderr=log)
        if not until(START_SECONDS_MAX, self.answers):
            raise RuntimeError("the gateway does not answer on its control socket")

    def answers(self):
        try:
            return self.get("/v1/sensors") is not None
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """SIGTERM; returns the exit status and how long it took in seconds."""
        began = time.monotonic()
        self.process.terminate()
        status = self.process.wait(timeout=3 * STOP_SECONDS_MAX)
        return status, time.monotonic() - began

    def own_mebibytes(self):
        """Memory of its own: what no file gives back."""
        with open(f"/proc/{self.process.pid}/smaps_rollup") as file:
            kibibytes = next(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))
        return round(kibibytes / 1024, 1)

    # MARK: Asking

    def get(self, path):
        return self.request("GET", path, None, 10)[1]

    def post(self, path, body):
        """Returns the HTTP status and the answer."""
        return self.request("POST", path, json.dumps(body), POST_SECONDS_MAX)

    def request(self, method, path, body, seconds_max):
        connection = UnixConnection(self.socket, seconds_max)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def sensors(self):
        """The known sensors by address."""
        return {sensor["address"]: sensor for sensor in self.get("/v1/sensors")}

    def health(self):
        return {condition["name"] for condition in self.get("/v1/status")["health"]}

    def command(self, *arguments, seconds_max=60):
        """Runs a command with --json; returns its exit status, its JSON and its complaint."""
        done = subprocess.run(
            [self.binary, *arguments, "--json"], env=self.environment, capture_output=True,
            text=True, timeout=seconds_max)
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            answer = None
        return done.returncode, answer, done.stderr.strip()

    def silent(self, addresses, since):
        """Those of the straps that have sent nothing since an instant of `time.monotonic`."""
        # Measured first: a slow answer must not make a frame from before the instant a later one.
        age = time.monotonic() - since
        sensors = self.sensors()
        return [
            address for address in addresses
            if sensors.get(address, {}).get("link") != "streaming"
            or sensors[address].get("seconds_since_frame", age) >= age]
