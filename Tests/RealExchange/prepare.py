"""Invitations of the two patients of the exchange's seed who let their heart rates be sent, and the key of one of
their practitioners. Run in its `manage.py shell`; writes REAL_EXCHANGE_FACTS."""
import base64
import json
import os

from django.conf import settings
from oauth2_provider.models import get_application_model

from core.models import Patient, PatientInvitation, Practitioner, PractitionerClient

Application = get_application_model()
client = Application.objects.get(name="CareX")
patients = [
    Patient.objects.get(jhe_user__email=f"ll_patient_{name}@example.com") for name in ("peter", "pamela")
]
practitioner = Practitioner.objects.get(jhe_user__email="manager_mary@example.com")
secret = "x" * 32
application = Application.objects.create(
    user=practitioner.jhe_user, name="relay", client_id="relay-of-the-tests", client_secret=secret,
    client_type=Application.CLIENT_CONFIDENTIAL,
    authorization_grant_type=Application.GRANT_CLIENT_CREDENTIALS,
    hash_client_secret=False, skip_authorization=True)
PractitionerClient.objects.create(application=application, practitioner=practitioner, label="relay")
facts = {
    "url": settings.SITE_URL,
    "database": settings.DATABASES["default"]["HOST"],
    "patients": [
        {"id": str(patient.id), "link": PatientInvitation.build_link(patient, client)[1]} for patient in patients
    ],
    "practitionerKey": base64.b64encode(f"{application.client_id}:{secret}".encode()).decode(),
}
with open(os.open(os.environ["REAL_EXCHANGE_FACTS"], os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
    json.dump(facts, file)
