"""One view: an order, whose parcel is packed if it is committed."""

from datetime import timedelta

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.utils import timezone

from .models import Order
from .tasks import pack, thank


@transaction.atomic
def order(request: HttpRequest) -> JsonResponse:
    """Store an order, and enqueue two tasks by the same transaction."""
    made = Order.objects.create(what=request.GET["what"])
    packed = pack.enqueue(made.pk)
    thanked = thank.using(run_after=timezone.now() + timedelta(seconds=2)).enqueue("Ada")
    return JsonResponse({"pack": packed.id, "thank": thanked.id}, status=202)


urlpatterns = [path("order", order)]
