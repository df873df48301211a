"""Pairs straps in a gateway's store, as many as no room holds: python3 straps.py STORE COUNT"""

import sqlite3
import sys

store = sqlite3.connect(sys.argv[1])
boot, uptime = store.execute(
    "SELECT boot, started_uptime_us FROM run ORDER BY id DESC LIMIT 1").fetchone()
for number in range(int(sys.argv[2])):
    low = f"{number:06X}"
    sensor = store.execute(
        "INSERT INTO sensor (address, name) VALUES (?, ?)",
        (f"C0:00:00:{low[:2]}:{low[2:4]}:{low[4:]}", f"strap {number}")).lastrowid
    store.execute(
        "INSERT INTO assignment (sensor, began_boot, began_uptime_us) VALUES (?, ?, ?)",
        (sensor, boot, uptime))
# The gateway seals what it writes of the registry itself.
store.execute("UPDATE registry_change SET seal = NULL")
store.commit()
