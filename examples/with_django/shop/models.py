"""Orders."""

from django.db import models


class Order(models.Model):
    """An order, and whether its parcel was packed."""

    what = models.TextField()
    is_packed = models.BooleanField(default=False)
