"""The certificates of Prefect's clients in a worker's children."""

import os
import shutil
import ssl
from pathlib import Path

from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

from flows.warm_worker import certificates

CERT_FILE = "PREFECT_API_SSL_CERT_FILE"


def test_clients_can_be_made_after_prefects_home_is_lost(tmp_path, monkeypatch):
    monkeypatch.setenv(CERT_FILE, "unset")
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api", PREFECT_HOME: tmp_path}):
        certificates.spare_certificates()
    shutil.rmtree(tmp_path)
    found = Path(os.environ[CERT_FILE])
    assert len(ssl.create_default_context(cafile=str(found)).get_ca_certs()) == 1


def test_a_server_behind_tls_is_left_alone(monkeypatch):
    monkeypatch.setenv(CERT_FILE, "house.pem")
    with temporary_settings({PREFECT_API_URL: "https://prefect.internal/api"}):
        certificates.spare_certificates()
    assert os.environ[CERT_FILE] == "house.pem"
