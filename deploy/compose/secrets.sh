#!/bin/sh
# Makes what compose.yaml reads as secrets, each unless it is there: passwords, the key of stored secrets, an access key
# of the object store, and a certificate for localhost, signed by itself, until you put your own into tls.pem.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
chmod 700 secrets
cd secrets

random() { openssl rand -hex 24; }
keep() { # NAME: from standard input, unless it is there
    if [ ! -s "$1" ]; then cat >"$1"; else cat >/dev/null; fi
    # Containers read it as users of their own; the folder is closed to everybody else on this machine.
    chmod 444 "$1"
}

random | keep postgres_password
password=$(cat postgres_password)
echo "postgresql://retrieval:$password@postgres/retrieval" | keep database_url
echo "postgresql://retrieval:$password@postgres/prefect" | keep prefect_database_url
echo "retrieval:$(random)" | keep prefect_login
echo "1:$(openssl rand -base64 32)" | keep secret_key
keep s3.json <<END
{"identities": [{"name": "retrieval", "credentials": [{"accessKey": "retrieval", "secretKey": "$(random)"}],
  "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}
END
if [ ! -s tls.pem ]; then
    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=localhost \
        -addext "subjectAltName=DNS:localhost,IP:127.0.0.1" -keyout tls.key -out tls.crt 2>/dev/null
    cat tls.crt tls.key | keep tls.pem
    rm tls.key
fi
echo "secrets: $(pwd)"
