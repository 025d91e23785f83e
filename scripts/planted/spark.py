"""Bugs in what Spark reads, streams and writes."""

from __future__ import annotations

from .bug import Bug

BUGS = (
    Bug(
        "spark: a try of a task has a name of its own",
        "transports/tolliver/spark/write/_sink.py",
        "write",
        'f"{self.options.write_id}/{partition}"',
        'f"{self.options.write_id}/{partition}/{uuid4()}"',
        ("tests/spark/test_sending.py::test_the_writers_are_pickled_and_name_their_tasks",),
    ),
    Bug(
        "spark: done before all is acknowledged",
        "transports/tolliver/spark/write/_sink.py",
        "write_rows",
        "sender.finish()",
        "",
        ("tests/spark/test_sending.py::test_a_receiver_that_does_not_acknowledge_is_an_error_after_ack_timeout",),
    ),
    Bug(
        "spark: an ack counts for another row",
        "transports/tolliver/spark/write/_sending.py",
        "acked",
        "places[self._ids[places] == ids]",
        "places",
        ("tests/spark/test_sending.py::test_acks_of_any_order_are_counted_once",),
    ),
    Bug(
        "spark: the last range is left out",
        "transports/tolliver/spark/read/_ranges.py",
        "_split",
        "[*cuts, end]",
        "cuts if len(cuts) > 1 else [*cuts, end]",
        ("tests/spark/test_reading.py::test_a_large_file_is_split_by_its_index",),
    ),
    Bug(
        "spark: what is damaged is passed over in silence",
        "transports/tolliver/spark/read/_batches.py",
        "damaged",
        "self._mode is Mode.FAILFAST",
        "False",
        ("tests/spark/test_reading.py::test_a_damaged_payload_costs_one_block",),
    ),
    Bug(
        "spark: an offset is compared without the opening that wrote before it",
        "transports/tolliver/spark/stream/_live.py",
        "_check",
        "Mark(place.stage, place.incarnation, place.checksum)",
        "Mark(place.stage, None, place.checksum)",
        ("tests/spark/test_stream_live.py::test_a_place_before_which_others_have_deleted_everything",),
    ),
)
