"""A mail server (aiosmtpd) that takes mail over TLS from whoever knows the password.

    mail_server.py DIRECTORY smtps|starttls|plain|open

Makes DIRECTORY/cert.pem for 127.0.0.1 and prints its port as the only line. What it takes it reads as a mail program
does and appends to DIRECTORY/mails.jsonl: from, to, subject, text, defects, and headers. While DIRECTORY/answer holds an
answer, such as "451 later", it gives that to mails instead. `plain` offers no TLS and takes no password, `open` asks
for no password and has TLS by STARTTLS.
"""

import asyncio
import email
import email.policy
import json
import pathlib
import ssl
import subprocess
import sys

from aiosmtpd.smtp import SMTP, AuthResult

directory, mode = pathlib.Path(sys.argv[1]), sys.argv[2]
USER, PASSWORD = "gw@mail.example", "correct horse ü"


def certificate():
    """Its own authority, for this machine."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
         directory / "key.pem", "-out", directory / "cert.pem", "-days", "36500", "-subj", "/CN=127.0.0.1", "-addext",
         "subjectAltName=IP:127.0.0.1"], check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "cert.pem", directory / "key.pem")
    return context


class Mailbox:
    async def handle_DATA(self, server, session, envelope):
        answer = directory / "answer"
        if answer.exists():
            return answer.read_text().strip()
        # The strict policy raises what a mail program would only frown at.
        mail = email.message_from_bytes(envelope.original_content, policy=email.policy.default)
        with open(directory / "mails.jsonl", "a") as file:
            file.write(json.dumps({
                "from": envelope.mail_from, "to": envelope.rcpt_tos, "subject": str(mail["subject"]),
                "text": mail.get_content(), "id": str(mail["message-id"]), "tls": mode == "smtps" or session.ssl is not None,
                "defects": [repr(defect) for part in mail.walk() for defect in part.defects]
                           + [repr(defect) for value in mail.values() for defect in value.defects],
                "headers": [name.lower() for name in mail.keys()]}) + "\n")
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    right = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=right, handled=False)


async def main():
    context = None if mode == "plain" else certificate()
    asks = mode in ("smtps", "starttls")

    def session():
        return SMTP(
            Mailbox(), hostname="127.0.0.1", enable_SMTPUTF8=False, authenticator=authenticate if asks else None,
            auth_required=asks, tls_context=context if mode in ("starttls", "open") else None,
            require_starttls=mode == "starttls", auth_require_tls=mode == "starttls")

    server = await asyncio.get_running_loop().create_server(
        session, "127.0.0.1", 0, ssl=context if mode == "smtps" else None)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
