"""The same service in Django, in one file: its workers, and their threads, hand over to one `tolliver run` beside them.

tolliver run tolliver.toml
gunicorn --workers 2 --threads 4 django_app:application
"""

from functools import cache
from os import getpid

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.http import require_POST
from tolliver import local


@cache
def client() -> local.Client:
    """The client of this process, from its first order on; threads share it, and a fork connects anew."""
    return local.connect("tolliver.sock").__enter__()


@require_POST
def post(_request: HttpRequest, number: str) -> JsonResponse:
    receipt = client().put("orders", number, b"2 boxes", message_key=f"order {number}")
    return JsonResponse({"order": number, "repeated": receipt.repeats, "worker": getpid()}, status=202)


urlpatterns = [path("orders/<str:number>", post)]
settings.configure(ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF=__name__, SECRET_KEY="yours", MIDDLEWARE=[])
application = get_wsgi_application()
