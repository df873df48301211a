"""Reads a Cloud Firestore as Google's own generated client sees it, over its REST transport: firestore_reader.py PORT USER

Prints {"stored": heart rates, an average counted as those it is of; "gaps", "days"}.
"""

import json
import sys

from google.cloud.firestore_v1 import types
from google.cloud.firestore_v1.services.firestore import FirestoreClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreRestTransport
from google.oauth2.credentials import Credentials

port, user = sys.argv[1:]
client = FirestoreClient(transport=FirestoreRestTransport(
    host=f"127.0.0.1:{port}", url_scheme="http", credentials=Credentials(token="owner")))
parent = f"projects/p/databases/(default)/documents/users/{user}"


def documents(collection):
    request = types.ListDocumentsRequest(parent=parent, collection_id=collection, page_size=500)
    return {document.name.rsplit("/", 1)[1]: document.fields for document in client.list_documents(request)}


stored = 0
for name, fields in documents("heartRate").items():
    strap, milliseconds, _ = name.split("-", 2)
    start, end = fields["start"].timestamp_value, fields["end"].timestamp_value
    if not (30 <= fields["bpm"].double_value <= 250 and strap == f"s{fields['sensor'].integer_value}"
            and int(start.timestamp() * 1000) == int(milliseconds) and start <= end):
        sys.exit(f"not a heart rate: {name} {fields}")
    stored += fields["count"].integer_value if "count" in fields else 1
gaps, days = documents("gaps"), documents("coverage")
for fields in gaps.values():
    if not fields["cause"].string_value or fields["seconds"].double_value <= 0:
        sys.exit(f"not a gap: {fields}")
for fields in days.values():
    causes = fields["secondsByCause"].map_value.fields.values()
    missing = sum(cause.double_value for cause in causes)
    if abs(fields["coveredSeconds"].double_value + missing - fields["expectedSeconds"].double_value) > 1:
        sys.exit(f"not a day: {fields}")
probe = documents("gateway")
if probe:
    sys.exit(f"the trial left something: {probe}")
print(json.dumps({"stored": stored, "gaps": len(gaps), "days": len(days)}))
