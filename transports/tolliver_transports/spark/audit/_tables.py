"""Tables of the audit: every function takes tables and gives one.

Nothing compares the clocks of two machines. Within one run of an instance, (file, ordinal) is the order of all that it
recorded; between two instances, only what TCP promises is used: what was sent before Y on a connection came before Y.
Ids say nothing of order, as each run begins them at another place (T-40), and names of files follow a clock that may
have been set back between two runs: so one connection counts as later than another where both ends' recordings say so.
So a message is called lost only where the receiver's own recording shows that it went past it, or that the sender went
on without it. If a recording ends early, the answer is "unproven" or null, never "lost".
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tolliver_proto import PROBE_CHANNEL, RESERVED_CHANNEL

_PRIVATE = (RESERVED_CHANNEL, PROBE_CHANNEL)  # no application has sent what is on these
_FLOW = ["sender", "receiver"]
_ID = [*_FLOW, "message_id", "content"]
_FAR = 2**63 - 1  # behind every place
_FILE_BITS = 40  # a recording has less than 2**40 bytes
_IDS = 2**31 - 2  # T-40: they run from 1 to this, and begin again
_SMALL_GAP = 10**6  # ids; a larger one is the part of the circle that was never used (T-40)
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_MICROSECONDS = 1e6


def _is(*kinds: str) -> Column:
    return F.col("kind").isin(*kinds)


def _out() -> Column:
    return F.col("direction") == "out"


def placed(facts: DataFrame) -> DataFrame:
    """Facts of blocks that could be read, with `place`, their order within an instance, and `connection`.

    A connection begins at its request. Rows before the first one of a cid have a number below 0.
    """
    place = F.shiftleft(F.col("file").cast("bigint"), _FILE_BITS) + F.col("ordinal")
    read = facts.where(F.col("local").isNotNull()).withColumn("place", place)
    of_cid = Window.partitionBy("local", "cid").orderBy("begin")
    starts = (
        read.where(_is("handshake_request"))
        .select("local", "cid", F.col("place").alias("begin"))
        .withColumn("end", F.coalesce(F.lead("begin").over(of_cid), F.lit(_FAR)))
        .withColumnsRenamed({"local": "of_local", "cid": "of_cid"})
    )
    here = (
        (F.col("local") == F.col("of_local"))
        & (F.col("cid") == F.col("of_cid"))
        & (F.col("place") >= F.col("begin"))
        & (F.col("place") < F.col("end"))
    )
    return (
        read.join(F.broadcast(starts), here, "left")
        .withColumn("connection", F.coalesce("begin", -1 - F.col("cid")))
        .drop("of_local", "of_cid", "begin", "end")
    )


def connections(placed: DataFrame, files: DataFrame) -> DataFrame:
    """One row for each connection of each instance. `files` are (file, ended).

    `recorded_to_end`: the recording is known to go on to where the connection ended. `whole`: no damage in its files.
    """
    rows = placed.groupBy("local", "cid", "connection").agg(
        F.max("peer").alias("peer"),
        F.max(F.when(_is("handshake_request"), F.when(_out(), "client").otherwise("server"))).alias("role"),
        F.min("time").alias("began"),
        F.max("time").alias("ended"),
        F.min(F.when(_is("handshake_request"), F.col("time"))).alias("requested"),
        F.min(F.when(_is("handshake_response"), F.col("time"))).alias("answered"),
        F.max(F.when(_is("handshake_request"), F.col("version"))).alias("requested_version"),
        F.max(F.when(_is("handshake_response"), F.col("version"))).alias("answered_version"),
        F.max("status").alias("status"),
        F.bool_or("compatible").alias("compatible"),
        F.count_if(_is("message") & ~_out()).alias("messages_in"),
        F.count_if(_is("message") & _out()).alias("messages_out"),
        F.min("place").alias("first_place"),
        F.max("place").alias("last_place"),
    )
    known = placed.groupBy("file").agg(F.max("place").alias("file_end")).join(files, "file")
    file_of = F.shiftright(F.col("last_place"), _FILE_BITS).cast("int")
    counted = Window.partitionBy("local", "peer").orderBy("first_place")
    return (
        rows.withColumn("file", file_of)
        .join(F.broadcast(known), "file", "left")
        .withColumn("recorded_to_end", F.col("ended_in_order") | (F.col("file_end") > F.col("last_place")))
        .withColumn("outcome", _outcome())
        .withColumn("nth", F.row_number().over(counted))
        .drop("file", "file_end", "ended_in_order")
    )


def _outcome() -> Column:
    """The outcome of the handshake (T-60): 0 and 1 are a yes, 2 is a no, and after 3 the client has the last word."""
    status, compatible = F.col("status"), F.col("compatible")
    return (
        F.when(F.col("connection") < 0, "beginning not recorded")
        .when(status.isNull(), "no answer")
        .when(status == 2, "incompatible")
        .when((status == 3) & compatible.isNull(), "no final")
        .when((status == 3) & ~compatible, "incompatible")
        .otherwise("established")
    )


def openings(placed: DataFrame) -> DataFrame:
    """(file, opening): which run of its instance wrote a file. A run begins a file, and its cids anew."""
    cid = F.when(_is("handshake_request"), F.col("cid"))
    files = placed.groupBy("local", "file").agg(F.min(cid).alias("lowest"), F.max(cid).alias("highest"))
    in_order = Window.partitionBy("local").orderBy("file")
    before = F.last("highest", ignorenulls=True).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.coalesce((F.col("lowest") <= before).cast("int"), F.lit(0))
    return files.withColumn("begins", begins).select("file", F.sum("begins").over(in_order).alias("opening"))


def handshakes(connections: DataFrame) -> DataFrame:
    """One row for each handshake, as either end recorded it."""
    return connections.where("requested IS NOT NULL OR answered IS NOT NULL").select(
        "requested", "local", "peer", "role", "cid", "requested_version", "answered_version", "status", "outcome",
        _seconds("requested", "answered").alias("seconds"),
    )  # fmt: skip


def subscriptions(placed: DataFrame, connections: DataFrame, recorded: Sequence[str]) -> DataFrame:
    """Subscriptions over time: as the subscriber recorded them, or its peer where the subscriber recorded nothing."""
    asked = placed.where(_is("subscribe", "unsubscribe") | F.col("subscriptions").isNotNull()).drop("peer")
    # A request is sent before the peer's name is known: the connection has it.
    named = asked.join(connections.select("local", "cid", "connection", "peer"), ["local", "cid", "connection"])
    named = named.withColumn("subscriber", F.when(_out(), F.col("local")).otherwise(F.col("peer")))
    named = named.withColumn("publisher", F.when(_out(), F.col("peer")).otherwise(F.col("local")))
    best = named.where(_out() | ~F.col("subscriber").isin(*recorded) | F.col("subscriber").isNull())
    columns = ["time", "subscriber", "publisher", "action", "channel", "key", "message_id"]
    changes = best.where(_is("subscribe", "unsubscribe")).withColumn("action", F.col("kind")).select(columns)
    lists = (
        best.where(F.col("subscriptions").isNotNull())
        .select("*", F.explode("subscriptions").alias("pair"))
        .withColumn("action", F.lit("in handshake"))
        .withColumn("channel", F.col("pair.channel"))
        .withColumn("key", F.col("pair.key"))
        .select(columns)
    )
    return changes.unionByName(lists)


def events(placed: DataFrame) -> DataFrame:
    """Messages, control messages and acks, with whose message it is; `own`: the sender recorded it."""
    own = F.when(_is("ack"), ~_out()).otherwise(_out())
    return (
        placed.where(_is("message", "subscribe", "unsubscribe", "ack") & F.col("peer").isNotNull())
        .withColumn("own", own)
        .withColumn("sender", F.when(F.col("own"), F.col("local")).otherwise(F.col("peer")))
        .withColumn("receiver", F.when(F.col("own"), F.col("peer")).otherwise(F.col("local")))
        .select(
            *_FLOW, "own", "local", "kind", "time", "place", "connection", "message_id", "channel", "key", "size",
            F.when(_is("subscribe", "unsubscribe"), 0).otherwise(F.col("content")).alias("content"),
        )
    )  # fmt: skip


def fates(passed: DataFrame, connections: DataFrame, recorded: Sequence[str]) -> DataFrame:
    """The rows of `passed`, with the `fate` of each message.

    - delivered: the receiver recorded it.
    - lost: the receiver recorded what came after it on the same connection, but not this; or the sender never got an
      ack, connected again, by the order of either end's recordings, sent other messages, which arrived, and did not
      send this one again (T-50).
    - unproven: acknowledged, but the receiver's recording does not go as far as this.
    - pending: not acknowledged, and nothing says that the sender has given it up.
    - unknown: the receiver recorded nothing.
    """
    lost = _lost(passed, connections)
    fate = (
        F.when(F.col("received") > 0, "delivered")
        .when(~F.col("receiver").isin(*recorded), "unknown")
        .when(F.coalesce("lost", F.lit(False)), "lost")
        .when(F.col("acknowledged"), "unproven")
        .otherwise("pending")
    )
    return passed.join(lost, _ID, "left").withColumn("fate", fate).drop("lost", "sendings", "their_connection")


def passed(events: DataFrame) -> DataFrame:
    """One row for each reliable message and receiver: what passed of it and of its acks, and when.

    An ack has only an id, so it belongs to the last message with that id before it, in the same recording.
    """
    before = Window.partitionBy(*_FLOW, "message_id", "local").orderBy("place")
    known = F.coalesce("content", F.last("content", ignorenulls=True).over(before))
    own, message = F.col("own"), _is("message")
    sent, received = message & own, message & ~own
    acked, returned = _is("ack") & own, _is("ack") & ~own
    return (
        events.where("message_id IS NOT NULL")
        .repartition(*_FLOW, "message_id")
        .withColumn("content", known)
        .where("content IS NOT NULL")
        .groupBy(_ID)
        .agg(
            F.first("channel", ignorenulls=True).alias("channel"),
            F.first("key", ignorenulls=True).alias("key"),
            F.max("size").alias("size"),
            F.count_if(sent).alias("copies"),
            F.count_if(received).alias("received"),
            (F.count_if(acked) + F.count_if(returned) > 0).alias("acknowledged"),
            F.min(F.when(sent, F.col("time"))).alias("first_sent"),
            F.min(F.when(received, F.col("time"))).alias("first_received"),
            F.min(F.when(acked, F.col("time"))).alias("first_acked"),
            F.min(F.when(sent, F.col("place"))).alias("first_place"),
            F.max(F.when(sent, F.col("place"))).alias("last_place"),
            F.collect_set(F.when(sent, F.struct("connection", "place"))).alias("sendings"),
            F.max(F.when(received, F.col("connection"))).alias("their_connection"),
            F.bool_or(message).alias("is_message"),
        )
        .where(F.col("is_message") & ~F.col("channel").isin(*_PRIVATE))
        .drop("is_message")
    )


def _lost(messages: DataFrame, connections: DataFrame) -> DataFrame:
    """Of the messages that never arrived, which are proven to be lost.

    A message that was sent on one connection only and arrived says that the receiver's recording of that connection
    goes at least that far, and which connection of the receiver's it is.
    """
    theirs = connections.select(
        F.col("local").alias("receiver"),
        F.col("connection").alias("their_connection"),
        F.col("first_place").alias("their_place"),
        "whole",
        "recorded_to_end",
    )
    lines = F.array_distinct(F.transform("sendings", lambda one: one["connection"]))
    arrived = messages.where((F.col("received") > 0) & (F.col("copies") > 0) & (F.size(lines) == 1))
    reach = (
        arrived.withColumn("connection", F.element_at(lines, 1))
        .groupBy(*_FLOW, "connection")
        .agg(
            F.max("first_place").alias("reach"),
            F.min("first_place").alias("since"),
            F.max("their_connection").alias("their_connection"),
        )
        .join(F.broadcast(theirs), ["receiver", "their_connection"])
        .drop("their_connection")
    )
    newest = reach.groupBy(*_FLOW).agg(F.max(F.struct("since", "their_place")).alias("newest"))
    missing = messages.where((F.col("received") == 0) & (F.col("copies") > 0))
    overtaken = (F.col("place") < F.col("reach")) & F.col("whole")
    settled = F.col("recorded_to_end") & F.col("whole")
    left_behind = (F.col("newest.since") > F.col("last_place")) & (F.col("newest.their_place") > F.col("their_place"))
    return (
        missing.select(*_ID, "acknowledged", "last_place", F.explode("sendings").alias("one"))
        .select("*", "one.connection", "one.place")
        .join(F.broadcast(reach), [*_FLOW, "connection"], "left")
        .join(F.broadcast(newest), _FLOW, "left")
        .groupBy(_ID)
        .agg(
            F.bool_or(F.coalesce(overtaken, F.lit(False))).alias("overtaken"),
            F.bool_and(F.coalesce(settled & ~F.col("acknowledged") & left_behind, F.lit(False))).alias("given_up"),
        )
        .select(*_ID, (F.col("overtaken") | F.col("given_up")).alias("lost"))
    )


def deliveries(messages: DataFrame, events: DataFrame, recorded: Sequence[str]) -> DataFrame:
    """One row for each sender, receiver and channel. Values of a side that recorded nothing are null."""
    keys = [*_FLOW, "channel"]
    sent, delivered, fate = F.col("copies") > 0, F.col("received") > 0, F.col("fate")
    reliable = messages.groupBy(keys).agg(
        F.count_if(sent).alias("sent"),
        F.count_if(sent & F.col("acknowledged")).alias("acknowledged"),
        F.count_if(delivered).alias("delivered"),
        F.count_if(F.col("received") > 1).alias("duplicates"),
        F.sum(F.when(sent, F.col("copies") - 1)).alias("resent"),
        F.count_if(sent & ~F.col("acknowledged")).alias("unacknowledged"),
        F.count_if(fate == "lost").alias("lost"),
        F.count_if(fate == "unproven").alias("unproven"),
        F.count_if(fate == "pending").alias("pending"),
        F.count_if(delivered & ~sent).alias("unrecorded"),
        F.sum(F.when(sent, F.col("size"))).alias("bytes"),
        *latencies(),
    )
    unreliable = (
        events.where(_is("message") & F.col("message_id").isNull())
        .where(~F.col("channel").isin(*_PRIVATE))
        .groupBy(keys)
        .agg(F.count_if("own").alias("unreliable_sent"), F.count_if(~F.col("own")).alias("unreliable_received"))
    )
    by_sender, by_receiver = F.col("sender").isin(*recorded), F.col("receiver").isin(*recorded)
    known = {
        **dict.fromkeys(("sent", "acknowledged", "resent", "unacknowledged", "unreliable_sent"), by_sender),
        **dict.fromkeys(("delivered", "duplicates", "unreliable_received"), by_receiver),
        **dict.fromkeys(("lost", "unproven", "pending", "unrecorded"), by_sender & by_receiver),
    }
    counts = {name: F.when(condition, F.coalesce(name, F.lit(0))) for name, condition in known.items()}
    return reliable.join(unreliable, keys, "full").withColumns(counts).select(*keys, *DELIVERIES)


DELIVERIES = (
    "sent", "acknowledged", "delivered", "duplicates", "resent", "unacknowledged", "lost", "unproven", "pending",
    "unrecorded", "bytes", "p50", "p95", "p99", "max", "unreliable_sent", "unreliable_received",
)  # fmt: skip


def latencies() -> list[Column]:
    """Seconds from the first sending to the first ack, by the sender's clock alone."""
    seconds = _seconds("first_sent", "first_acked")
    exact = 10_000  # of a percentile's rank: far finer than what is shown
    found = [F.percentile_approx(seconds, share, exact).alias(name) for name, share in PERCENTILES.items()]
    return [*found, F.max(seconds).alias("max")]


def _seconds(begin: str, end: str) -> Column:
    return (F.unix_micros(end) - F.unix_micros(begin)) / _MICROSECONDS


def _step(time: str, seconds: float) -> Column:
    """The beginning of the step of time that this is in."""
    width = round(seconds * _MICROSECONDS)
    return F.timestamp_micros(F.floor(F.unix_micros(time) / width) * width)


def traffic(messages: DataFrame, seconds: float) -> DataFrame:
    """Messages first sent and first received, by channel, in each step of so many seconds."""
    keys = [*_FLOW, "channel", "begin"]

    def counted(time: str, name: str, other: str) -> DataFrame:
        found = messages.where(F.col(time).isNotNull()).withColumn("begin", _step(time, seconds))
        return found.groupBy(keys).agg(F.count("*").alias(name)).withColumn(other, F.lit(0))

    both = counted("first_sent", "sent", "delivered").unionByName(counted("first_received", "delivered", "sent"))
    return both.groupBy(keys).agg(F.sum("sent").alias("sent"), F.sum("delivered").alias("delivered"))


def latency(messages: DataFrame, seconds: float) -> DataFrame:
    """Sent-to-acked percentiles of the messages that were first sent in each step of so many seconds."""
    acked = messages.where("first_acked IS NOT NULL AND first_sent IS NOT NULL")
    keys = [*_FLOW, "begin"]
    return (
        acked.withColumn("begin", _step("first_sent", seconds))
        .groupBy(keys)
        .agg(F.count("*").alias("acknowledged"), *latencies())
    )


def gaps(events: DataFrame, openings: DataFrame) -> DataFrame:
    """Runs of ids that a sender gave, within one opening, to nothing that anybody recorded. Ids run in a circle (T-40).

    An opening is known where the sender recorded; else all of one sender's ids count as of the same.
    """
    circle = Window.partitionBy("sender").orderBy("message_id")
    around = (F.first("message_id").over(circle) + _IDS).alias("message_id")  # behind the last comes the first
    first = F.struct(around, F.first("opening").over(circle).alias("opening"))
    of_opening = F.struct("message_id", "opening")
    return (
        events.where(~_is("ack") & F.col("message_id").between(1, _IDS))
        .groupBy("sender", "message_id")
        .agg(F.shiftright(F.min(F.when(F.col("own"), F.col("place"))), _FILE_BITS).cast("int").alias("file"))
        .join(F.broadcast(openings), "file", "left")
        .withColumn("following", F.coalesce(F.lead(of_opening).over(circle), first))
        .withColumn("next", F.col("following.message_id"))
        .withColumn("missing", F.col("next") - F.col("message_id") - 1)
        .where(F.col("missing").between(1, _SMALL_GAP))
        .where(F.coalesce(F.col("opening") == F.col("following.opening"), F.lit(True)))
        .select(
            "sender", F.col("message_id").alias("after"), ((F.col("next") - 1) % _IDS + 1).alias("before"), "missing"
        )
    )


def recordings(facts: DataFrame, files: DataFrame) -> DataFrame:
    """One row for each file that was read: whose, from when to when, and what could not be read."""
    damaged = _is("damaged", "malformed")
    found = facts.groupBy("file").agg(
        F.count_if(F.col("local").isNotNull()).alias("frames"),
        F.min("time").alias("began"),
        F.max("time").alias("ended"),
        F.count_if(damaged).alias("damages"),
        F.max(F.when(damaged | _is("torn"), F.col("detail"))).alias("damage"),
    )
    return files.join(found, "file", "left").fillna(0, ["frames", "damages"]).orderBy("file")


def with_wholeness(connections: DataFrame, recordings: DataFrame) -> DataFrame:
    """The connections, with `whole`: whether none of the files from its first to its last frame is damaged."""
    bad = recordings.where("damages > 0").select(F.col("local"), F.col("file").alias("bad"))
    marked = connections.join(
        F.broadcast(bad.groupBy("local").agg(F.collect_set("bad").alias("bads"))), "local", "left"
    )
    first = F.shiftright(F.col("first_place"), _FILE_BITS)
    last = F.shiftright(F.col("last_place"), _FILE_BITS)
    touched = F.exists("bads", lambda file: file.between(first, last))
    return marked.withColumn("whole", ~F.coalesce(touched, F.lit(False))).drop("bads")
