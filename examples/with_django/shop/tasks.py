"""Two tasks."""

import asyncio

from django.tasks import task

from .models import Order


@task
def pack(number: int) -> str:
    """Pack an order. It may run twice, so it says what is to be, and not what to add."""
    order = Order.objects.get(pk=number)
    if order.what == "nothing":
        raise ValueError("there is nothing to pack")
    Order.objects.filter(pk=number).update(is_packed=True)
    return f"packed {order.what}"


@task
async def thank(name: str) -> str:
    """Say thanks, some time later."""
    await asyncio.sleep(0.01)
    return f"thanks, {name}"
