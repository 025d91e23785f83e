"""Bugs in what runs in Spark.

The idea: a row that is lost, doubled or taken for another looks like any other row, so each way to it is taken.
"""

from __future__ import annotations

from .bug import Bug

SINK = "transports/tolliver_transports/spark/write/_sink.py"
SENDING = "transports/tolliver_transports/spark/write/_sending.py"
LINK = "transports/tolliver_transports/spark/write/_link.py"
ENCODE = "transports/tolliver_transports/spark/write/_encode.py"
BATCHES = "transports/tolliver_transports/spark/read/_batches.py"
RANGES = "transports/tolliver_transports/spark/read/_ranges.py"
COLUMNS = "transports/tolliver_transports/spark/read/_columns.py"
PUSHDOWN = "transports/tolliver_transports/spark/read/_pushdown.py"

TABLES = "transports/tolliver_transports/spark/_tables.py"

BUGS = (
    Bug(
        "spark: data say what is read of another place",
        TABLES,
        "for_reader",
        "own.keys() & _PLACES",
        "False",
        ("tests/spark/test_tables.py::test_data_bring_no_option_to_a_call_that_has_its_own[channels]",),
    ),
    Bug(
        "spark: a try of a task has a name of its own",
        SINK,
        "write",
        'f"{self.options.write_id}/{partition}"',
        'f"{self.options.write_id}/{partition}/{uuid4()}"',
        ("tests/spark/test_sending.py::test_the_writers_are_pickled_and_name_their_tasks",),
    ),
    Bug(
        "spark: batches of a stream share a name",
        SINK,
        "write",
        'f"{query}/{batch}/{partition}"',
        'f"{query}/{partition}"',
        ("tests/spark/test_sending.py::test_the_writers_are_pickled_and_name_their_tasks",),
    ),
    Bug(
        "spark: ids begin anew in each batch",
        SINK,
        "ids",
        "before + 1",
        "1",
        ("tests/spark/test_sending.py::test_a_partition_arrives_once_and_in_order_however_often_it_is_written",),
    ),
    Bug(
        "spark: an id twice",
        SINK,
        "_see",
        "again.any()",
        "False",
        ("tests/spark/test_sending.py::test_ids_of_a_column_count_once_in_any_order",),
    ),
    Bug(
        "spark: done before all is acknowledged",
        SINK,
        "write_rows",
        "sender.finish()",
        "",
        ("tests/spark/test_sending.py::test_a_receiver_that_does_not_acknowledge_is_an_error_after_ack_timeout",),
    ),
    Bug(
        "spark: the window has no bound",
        SENDING,
        "_has_room",
        "fits and (not self._runs or sum(run.size for run in self._runs) + size <= WINDOW_BYTES)",
        "True or (not self._runs or sum(run.size for run in self._runs) + size <= WINDOW_BYTES)",
        ("tests/spark/test_sending.py::test_no_more_is_unacknowledged_than_the_window",),
    ),
    Bug(
        "spark: an ack counts for another row",
        SENDING,
        "acked",
        "places[self._ids[places] == ids]",
        "places",
        ("tests/spark/test_sending.py::test_acks_of_any_order_are_counted_once",),
    ),
    Bug(
        "spark: nothing is sent again",
        SENDING,
        "_until",
        "self._runs and now >= self._resend_at",
        "False",
        ("tests/spark/test_sending.py::test_a_message_without_an_answer_is_sent_again",),
    ),
    Bug(
        "spark: a cut ack is lost",
        LINK,
        "_take_acks",
        'rest if is_cut else b""',
        'b""',
        ("tests/spark/test_sending.py::test_acks_come_out_however_they_are_cut",),
    ),
    Bug(
        "spark: rows that nobody wants are sent",
        SENDING,
        "_wanted",
        "self._unwanted(rows.channel, rows.key)",
        "None",
        ("tests/spark/test_sending.py::test_what_nobody_subscribes_to_is_an_error_or_counted",),
    ),
    Bug(
        "spark: a slice is sent from its beginning",
        ENCODE,
        "wire_bytes",
        "places[frames.offset], places[frames.offset + len(frames)]",
        "places[0], places[len(frames)]",
        ("tests/spark/test_encode.py::test_any_of_the_frames_can_be_sent_again",),
    ),
    Bug(
        "spark: the reserved channel is sent to",
        ENCODE,
        "take_rows",
        '_refuse(own, number, "its channel is the protocol\'s own: choose another (T-27, T-80)")',
        '_refuse(own, number, some=False, why="its channel is the protocol\'s own: choose another (T-27, T-80)")',
        ("tests/spark/test_encode.py::test_what_cannot_be_sent_is_refused_with_its_row",),
    ),
    Bug(
        "spark: nulls are sent",
        ENCODE,
        "take_rows",
        "column.null_count > 0",
        "False",
        ("tests/spark/test_encode.py::test_what_cannot_be_sent_is_refused_with_its_row",),
    ),
    Bug(
        "spark: direction decides the wrong sender",
        BATCHES,
        "sender",
        "header.local if header.direction is Direction.OUT else header.peer",
        "header.peer if header.direction is Direction.OUT else header.local",
        ("tests/spark/test_reading.py::test_each_pushed_filter",),
    ),
    Bug(
        "spark: the end of a time belongs to it",
        BATCHES,
        "of_time",
        "min(self.until, 2**64) - 1",
        "min(self.until, 2**64 - 1)",
        ("tests/spark/test_reading.py::test_each_message_of_a_group_has_its_own_time_and_place",),
    ),
    Bug(
        "spark: a file is cut twice",
        RANGES,
        "_split",
        "cuts.append(place)",
        "cuts.append(place + 1)",
        ("tests/spark/test_reading.py::test_a_large_file_is_split_by_its_index",),
    ),
    Bug(
        "spark: the last range is left out",
        RANGES,
        "_split",
        "[*cuts, end]",
        "cuts if len(cuts) > 1 else [*cuts, end]",
        ("tests/spark/test_reading.py::test_a_large_file_is_split_by_its_index",),
    ),
    Bug(
        "spark: what is damaged is passed over in silence",
        BATCHES,
        "damaged",
        "self._mode is Mode.FAILFAST",
        "False",
        ("tests/spark/test_reading.py::test_a_damaged_payload_costs_one_block",),
    ),
    Bug(
        "spark: a torn end is passed over in silence",
        BATCHES,
        "torn",
        "self._tail is TruncatedTail.ERROR",
        "False",
        ("tests/spark/test_reading.py::test_a_torn_tail_is_ignored_unless_it_is_to_be_an_error",),
    ),
    Bug(
        "spark: reading ends at a damaged header",
        RANGES,
        "blocks_in",
        "next((entry for entry in part.entries if entry > block.offset), None)",
        "None",
        ("tests/spark/test_reading.py::test_behind_a_damaged_header_the_index_says_where_to_go_on",),
    ),
    Bug(
        "spark: the wrong index is not noticed",
        RANGES,
        "blocks_in",
        "isinstance(block, Damage) and block.torn and not part.last",
        "False",
        ("tests/spark/test_reading.py::test_an_index_that_points_into_a_body_is_found_out",),
    ),
    Bug(
        "spark: control messages are rows",
        COLUMNS,
        "regular",
        "~self.control & good_text(self.channel)",
        "good_text(self.channel)",
        ("tests/spark/test_columns.py::test_columns_are_the_machine_s_frames",),
    ),
    Bug(
        "spark: the audit takes the order of files for that of runs",
        "transports/tolliver_transports/spark/audit/_tables.py",
        "",
        '"newest_since > last_place AND newest_place > their_place"',
        '"newest_since > last_place"',
        ("tests/spark/test_audit.py::test_what_became_of_the_messages",),
    ),
    Bug(
        "layouts: the sink takes a refusal for an ack",
        LINK,
        "_take_heads",
        "heads = heads[good]",
        "pass",
        ("tests/spark/test_foreign.py::test_who_refuses_for_ever_is_said",),
    ),
    Bug(
        "layouts: the sink takes half of a long id",
        LINK,
        "_take_ids",
        "ids = ids[ids <= _MOST]",
        "pass",
        ("tests/spark/test_foreign.py::test_go_of_2026_gets_all_rows_and_may_refuse_some",),
    ),
    Bug(
        "layouts: the sink knows one entry of a control message",
        LINK,
        "_change",
        "entries = event.subscriptions",
        "entries = event.subscriptions[:1]",
        ("tests/spark/test_foreign.py::test_go_of_2026_gets_all_rows_and_may_refuse_some",),
    ),
    Bug(
        "spark: a filter takes too much",
        PUSHDOWN,
        "_between",
        "(after, wanted.until)",
        "(at, wanted.until)",
        ("tests/spark/test_reading.py::test_each_pushed_filter",),
    ),
)
