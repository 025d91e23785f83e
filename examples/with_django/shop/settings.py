"""Settings: a page of them, of which the last two are tolliver's."""

import os
from pathlib import Path
from typing import Any

BASE_DIR = Path(__file__).parents[1]
SECRET_KEY = "only for an example"
DEBUG = True
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": BASE_DIR / "shop.sqlite3",
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"},
    }
}
if "POSTGRES" in os.environ:  # the directory of its socket
    server = {"NAME": "postgres", "USER": "tolliver", "HOST": os.environ["POSTGRES"]}
    DATABASES["default"] = {"ENGINE": "django.db.backends.postgresql", **server}

INSTALLED_APPS = ["shop", "tolliver.django"]
TASKS = {
    "default": {
        "BACKEND": "tolliver.django.TolliverBackend",
        "OPTIONS": {"directory": BASE_DIR / "tasks", "attempts": 2},
    }
}
