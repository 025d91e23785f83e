-- Tables of the audit, as queries that Spark and DuckDB both run (see _tables.py).
--
-- Names in braces are other tables, and values. Rows of a TABLE are kept, as others are made of it more than once. DuckDB
-- takes a hint for a comment. None begins with WITH: Spark does not find the rows that it has kept of such a query.

CREATE VIEW readable AS
SELECT *, (CAST(file AS BIGINT) << 40) + ordinal AS place FROM {facts} WHERE local IS NOT NULL;

CREATE VIEW starts AS
SELECT local AS of_local, cid AS of_cid, place AS first,
    coalesce(lead(place) OVER (PARTITION BY local, cid ORDER BY place), {far}) AS next
FROM {readable} WHERE kind = 'handshake_request';

-- Facts of blocks that could be read, with `place`, their order within an instance, and `connection`: it begins at its
-- request. Rows before the first one of a cid have a number below 0. A recording has less than 2**40 bytes.
CREATE VIEW placed AS
SELECT /*+ BROADCAST(starts) */ local, peer, cid, direction, time, kind, message_id, channel, key, size, content,
    version, status, compatible, subscriptions, file, place, coalesce(first, -1 - cid) AS connection
FROM {readable} AS readable LEFT JOIN {starts} AS starts
    ON local = of_local AND cid = of_cid AND place >= first AND place < next;

CREATE VIEW counted AS
SELECT file, count(local) AS frames, min(time) AS began, max(time) AS ended,
    count(*) FILTER (WHERE kind IN ('damaged', 'malformed')) AS damages,
    max(CASE WHEN kind IN ('damaged', 'malformed', 'torn') THEN detail END) AS damage
FROM {facts} GROUP BY file;

-- One row for each file that was read: whose, from when to when, and what could not be read.
CREATE TABLE recordings AS
SELECT file, path, local, name, bytes, ended_in_order, coalesce(frames, 0) AS frames, began, ended,
    coalesce(damages, 0) AS damages, damage
FROM {files} LEFT JOIN {counted} AS found USING (file);

CREATE VIEW lines AS
SELECT local, cid, connection, max(peer) AS peer,
    max(CASE WHEN kind <> 'handshake_request' THEN NULL WHEN direction = 'out' THEN 'client' ELSE 'server' END)
        AS role,
    min(time) AS began, max(time) AS ended,
    min(CASE WHEN kind = 'handshake_request' THEN time END) AS requested,
    min(CASE WHEN kind = 'handshake_response' THEN time END) AS answered,
    max(CASE WHEN kind = 'handshake_request' THEN version END) AS requested_version,
    max(CASE WHEN kind = 'handshake_response' THEN version END) AS answered_version,
    max(status) AS status, bool_or(compatible) AS compatible,
    count(*) FILTER (WHERE kind = 'message' AND direction = 'in') AS messages_in,
    count(*) FILTER (WHERE kind = 'message' AND direction = 'out') AS messages_out,
    min(place) AS first_place, max(place) AS last_place,
    min(place) >> 40 AS first_file, max(place) >> 40 AS last_file
FROM {placed} GROUP BY local, cid, connection;

CREATE VIEW file_ends AS
SELECT file, max(place) AS file_end FROM {placed} GROUP BY file;

-- One row for each connection of each instance. The outcome of the handshake (T-60): a status of 0 or 1 is a yes, 2 is a
-- no, and after 3 the client has the last word. `recorded_to_end`: the recording is known to go on to where the
-- connection ended. `whole`: none of the files from its first to its last frame is damaged.
CREATE TABLE connections AS
SELECT lines.local, cid, connection, peer, role, began, ended, requested, answered, requested_version,
    answered_version, status, compatible, messages_in, messages_out, first_place, last_place,
    ended_in_order OR file_end > last_place AS recorded_to_end,
    CASE
        WHEN connection < 0 THEN 'beginning not recorded'
        WHEN status IS NULL THEN 'no answer'
        WHEN status = 2 THEN 'incompatible'
        WHEN status = 3 AND compatible IS NULL THEN 'no final'
        WHEN status = 3 AND NOT compatible THEN 'incompatible'
        ELSE 'established'
    END AS outcome,
    CAST(row_number() OVER (PARTITION BY lines.local, peer ORDER BY first_place) AS INT) AS nth,
    NOT EXISTS (
        SELECT 1 FROM {recordings} AS bad
        WHERE bad.damages > 0 AND bad.local = lines.local AND bad.file BETWEEN first_file AND last_file
    ) AS whole
FROM {lines} AS lines
    LEFT JOIN {file_ends} AS file_ends ON file_ends.file = last_file
    LEFT JOIN {files} AS files ON files.file = last_file;

CREATE VIEW cids AS
SELECT local, file, min(CASE WHEN kind = 'handshake_request' THEN cid END) AS lowest,
    max(CASE WHEN kind = 'handshake_request' THEN cid END) AS highest
FROM {placed} GROUP BY local, file;

CREATE VIEW cids_before AS
SELECT local, file, lowest, max_by(highest, CASE WHEN highest IS NOT NULL THEN file END) OVER (
    PARTITION BY local ORDER BY file ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
FROM {cids};

-- Which run of its instance wrote a file, as (file, opening). A run begins a file, and its cids anew.
CREATE VIEW openings AS
SELECT file, count(CASE WHEN lowest <= before THEN 1 END) OVER (PARTITION BY local ORDER BY file) AS opening
FROM {cids_before};

-- One row for each handshake, as either end recorded it.
CREATE VIEW handshakes AS
SELECT requested, local, peer, role, cid, requested_version, answered_version, status, outcome,
    (unix_micros(answered) - unix_micros(requested)) / 1e6 AS seconds
FROM {connections} WHERE requested IS NOT NULL OR answered IS NOT NULL;

CREATE VIEW asked_for AS
SELECT asked.time, asked.kind, asked.channel, asked.key, asked.message_id, asked.subscriptions,
    asked.direction = 'out' AS own,
    CASE WHEN asked.direction = 'out' THEN local ELSE connections.peer END AS subscriber,
    CASE WHEN asked.direction = 'out' THEN connections.peer ELSE local END AS publisher
FROM {placed} AS asked JOIN {connections} AS connections USING (local, cid, connection)
WHERE asked.kind IN ('subscribe', 'unsubscribe') OR asked.subscriptions IS NOT NULL;

CREATE VIEW best_told AS
SELECT * FROM {asked_for} WHERE own OR subscriber IS NULL OR subscriber NOT IN {recorded};

CREATE VIEW pairs AS
SELECT time, subscriber, publisher, message_id, explode(subscriptions) AS pair
FROM {best_told} WHERE subscriptions IS NOT NULL;

-- Subscriptions over time: as the subscriber recorded them, or its peer where the subscriber recorded nothing. A request
-- is sent before the peer's name is known: the connection has it.
CREATE VIEW subscriptions AS
SELECT time, subscriber, publisher, kind AS action, channel, key, message_id
FROM {best_told} WHERE kind IN ('subscribe', 'unsubscribe')
UNION ALL
SELECT time, subscriber, publisher, 'in handshake' AS action, pair.channel AS channel, pair.key AS key, message_id
FROM {pairs};

CREATE VIEW owned AS
SELECT *, direction = CASE WHEN kind = 'ack' THEN 'in' ELSE 'out' END AS own FROM {placed}
WHERE kind IN ('message', 'subscribe', 'unsubscribe', 'ack') AND peer IS NOT NULL;

-- Messages, control messages and acks, with whose message it is; `own`: the sender recorded it.
CREATE VIEW events AS
SELECT CASE WHEN own THEN local ELSE peer END AS sender, CASE WHEN own THEN peer ELSE local END AS receiver,
    own, local, kind, time, place, connection, message_id, channel, key, size,
    CASE WHEN kind IN ('subscribe', 'unsubscribe') THEN 0 ELSE content END AS content
FROM {owned};

CREATE VIEW with_ids AS
SELECT /*+ REPARTITION(sender, receiver, message_id) */ * FROM {events} WHERE message_id IS NOT NULL;

CREATE VIEW contents AS
SELECT sender, receiver, message_id, channel, key, size, time, place, connection, kind = 'message' AS is_message,
    kind = 'message' AND own AS sent, kind = 'message' AND NOT own AS arrived,
    kind = 'ack' AS ack, kind = 'ack' AND own AS acked,
    coalesce(content, max_by(content, CASE WHEN content IS NOT NULL THEN place END) OVER (
        PARTITION BY sender, receiver, message_id, local ORDER BY place)) AS content
FROM {with_ids};

-- One row for each reliable message and receiver: what passed of it and of its acks, and when. An ack has only an id, so
-- it belongs to the last message with that id before it, in the same recording. `first_line` and `last_line` are the
-- lowest and the highest of the connections that it was sent on.
CREATE TABLE passed AS
SELECT sender, receiver, message_id, content, max(channel) AS channel, max(key) AS key, max(size) AS size,
    count(*) FILTER (WHERE sent) AS copies, count(*) FILTER (WHERE arrived) AS received, bool_or(ack) AS acknowledged,
    min(CASE WHEN sent THEN time END) AS first_sent,
    min(CASE WHEN arrived THEN time END) AS first_received,
    min(CASE WHEN acked THEN time END) AS first_acked,
    min(CASE WHEN sent THEN place END) AS first_place,
    max(CASE WHEN sent THEN place END) AS last_place,
    min(CASE WHEN sent THEN connection END) AS first_line,
    max(CASE WHEN sent THEN connection END) AS last_line,
    max(CASE WHEN arrived THEN connection END) AS their_connection
FROM {contents} WHERE content IS NOT NULL GROUP BY sender, receiver, message_id, content
HAVING bool_or(is_message) AND max(channel) NOT IN {private};

CREATE VIEW arrived AS
SELECT sender, receiver, first_line AS connection, max(first_place) AS reach, min(first_place) AS since,
    max(their_connection) AS their_connection
FROM {passed} WHERE received > 0 AND first_line = last_line
GROUP BY sender, receiver, first_line;

CREATE VIEW reached AS
SELECT sender, receiver, arrived.connection, reach, since, theirs.first_place AS their_place, whole, recorded_to_end
FROM {arrived} AS arrived JOIN {connections} AS theirs
    ON theirs.local = arrived.receiver AND theirs.connection = arrived.their_connection;

CREATE VIEW newest AS
SELECT sender, receiver, max(since) AS newest_since, max_by(their_place, since) AS newest_place
FROM {reached} GROUP BY sender, receiver;

CREATE VIEW copies AS
SELECT sender, receiver, message_id, content, missing.acknowledged, missing.last_place, events.connection,
    events.place
FROM {passed} AS missing JOIN {events} AS events USING (sender, receiver, message_id, content)
WHERE missing.received = 0 AND missing.copies > 0 AND events.kind = 'message' AND events.own;

CREATE VIEW judged AS
SELECT /*+ BROADCAST(reached, newest) */ sender, receiver, message_id, content,
    bool_or(coalesce(place < reach AND whole, FALSE)) AS overtaken,
    bool_and(coalesce(
        recorded_to_end AND whole AND NOT acknowledged
            AND {left_behind}, FALSE)) AS given_up
FROM {copies} AS copies
    LEFT JOIN {reached} AS reached USING (sender, receiver, connection)
    LEFT JOIN {newest} AS newest USING (sender, receiver)
GROUP BY sender, receiver, message_id, content;

-- The messages, with the fate of each:
-- - delivered: the receiver recorded it.
-- - lost: the receiver recorded what came after it on the same connection, but not this; or the sender never got an ack,
--   connected again, by the order of either end's recordings, sent other messages, which arrived, and did not send this
--   one again (T-50).
-- - unproven: acknowledged, but the receiver's recording does not go as far as this.
-- - pending: not acknowledged, and nothing says that the sender has given it up.
-- - unknown: the receiver recorded nothing.
-- A message that was sent on one connection only and arrived says that the receiver's recording of that connection goes
-- at least that far, and which connection of the receiver's it is: that is `reached`.
CREATE TABLE messages AS
SELECT sender, receiver, message_id, content, channel, key, size, copies, received, acknowledged,
    first_sent, first_received, first_acked, first_place, last_place,
    CASE
        WHEN received > 0 THEN 'delivered'
        WHEN receiver NOT IN {recorded} THEN 'unknown'
        WHEN overtaken OR given_up THEN 'lost'
        WHEN acknowledged THEN 'unproven'
        ELSE 'pending'
    END AS fate
FROM {passed} LEFT JOIN {judged} AS judged USING (sender, receiver, message_id, content);

CREATE VIEW reliable AS
SELECT sender, receiver, channel,
    count(*) FILTER (WHERE copies > 0) AS sent,
    count(*) FILTER (WHERE copies > 0 AND acknowledged) AS acknowledged,
    count(*) FILTER (WHERE received > 0) AS delivered,
    count(*) FILTER (WHERE received > 1) AS duplicates,
    CAST(sum(CASE WHEN copies > 0 THEN copies - 1 END) AS BIGINT) AS resent,
    count(*) FILTER (WHERE copies > 0 AND NOT acknowledged) AS unacknowledged,
    count(*) FILTER (WHERE fate = 'lost') AS lost,
    count(*) FILTER (WHERE fate = 'unproven') AS unproven,
    count(*) FILTER (WHERE fate = 'pending') AS pending,
    count(*) FILTER (WHERE received > 0 AND copies = 0) AS unrecorded,
    CAST(sum(CASE WHEN copies > 0 THEN size END) AS BIGINT) AS bytes,
    {latencies}
FROM {messages} GROUP BY sender, receiver, channel;

CREATE VIEW unreliable AS
SELECT sender, receiver, channel,
    count(*) FILTER (WHERE own) AS unreliable_sent, count(*) FILTER (WHERE NOT own) AS unreliable_received
FROM {events} WHERE kind = 'message' AND message_id IS NULL AND channel NOT IN {private}
GROUP BY sender, receiver, channel;

CREATE VIEW both_kinds AS
SELECT *, sender IN {recorded} AS by_sender, receiver IN {recorded} AS by_receiver
FROM {reliable} AS reliable FULL JOIN {unreliable} AS unreliable USING (sender, receiver, channel);

-- One row for each sender, receiver and channel. Values of a side that recorded nothing are null.
CREATE TABLE deliveries AS
SELECT sender, receiver, channel,
    CASE WHEN by_sender THEN coalesce(sent, 0) END AS sent,
    CASE WHEN by_sender THEN coalesce(acknowledged, 0) END AS acknowledged,
    CASE WHEN by_receiver THEN coalesce(delivered, 0) END AS delivered,
    CASE WHEN by_receiver THEN coalesce(duplicates, 0) END AS duplicates,
    CASE WHEN by_sender THEN coalesce(resent, 0) END AS resent,
    CASE WHEN by_sender THEN coalesce(unacknowledged, 0) END AS unacknowledged,
    CASE WHEN by_sender AND by_receiver THEN coalesce(lost, 0) END AS lost,
    CASE WHEN by_sender AND by_receiver THEN coalesce(unproven, 0) END AS unproven,
    CASE WHEN by_sender AND by_receiver THEN coalesce(pending, 0) END AS pending,
    CASE WHEN by_sender AND by_receiver THEN coalesce(unrecorded, 0) END AS unrecorded,
    bytes, p50, p95, p99, max,
    CASE WHEN by_sender THEN coalesce(unreliable_sent, 0) END AS unreliable_sent,
    CASE WHEN by_receiver THEN coalesce(unreliable_received, 0) END AS unreliable_received
FROM {both_kinds};

CREATE VIEW moments AS
SELECT sender, receiver, channel, first_sent AS time, 1 AS sent, 0 AS delivered FROM {messages}
UNION ALL
SELECT sender, receiver, channel, first_received AS time, 0 AS sent, 1 AS delivered FROM {messages};

CREATE VIEW steps AS
SELECT sender, receiver, channel, unix_micros(time) - unix_micros(time) % {step} AS micros, sent, delivered
FROM {moments} WHERE time IS NOT NULL;

-- Messages first sent and first received, by channel, in each step of time.
CREATE VIEW traffic AS
SELECT sender, receiver, channel, timestamp_micros(micros) AS begin, CAST(sum(sent) AS BIGINT) AS sent,
    CAST(sum(delivered) AS BIGINT) AS delivered
FROM {steps} GROUP BY sender, receiver, channel, micros;

CREATE VIEW acked AS
SELECT sender, receiver, first_sent, first_acked,
    unix_micros(first_sent) - unix_micros(first_sent) % {step} AS micros
FROM {messages} WHERE first_acked IS NOT NULL AND first_sent IS NOT NULL;

-- Sent-to-acked percentiles of the messages that were first sent in each step of time.
CREATE VIEW latency AS
SELECT sender, receiver, timestamp_micros(micros) AS begin, count(*) AS acknowledged, {latencies}
FROM {acked} GROUP BY sender, receiver, micros;

CREATE VIEW shared AS
SELECT sender, receiver, message_id, count(*) AS messages FROM {passed}
GROUP BY sender, receiver, message_id HAVING count(*) > 1;

-- Ids under which a sender has sent more than one message to a receiver (T-48, T-72a): their number, and that of the
-- messages.
CREATE VIEW reused AS
SELECT sender, receiver, count(*) AS ids, CAST(sum(messages) AS BIGINT) AS messages
FROM {shared} GROUP BY sender, receiver;

CREATE VIEW given AS
SELECT sender, message_id, min(CASE WHEN own THEN place END) >> 40 AS file
FROM {events} WHERE kind <> 'ack' AND message_id BETWEEN 1 AND {last_id}
GROUP BY sender, message_id;

CREATE VIEW opened AS
SELECT /*+ BROADCAST(openings) */ sender, message_id, opening
FROM {given} AS given LEFT JOIN {openings} AS openings ON openings.file = given.file;

CREATE VIEW followed AS
SELECT sender, message_id, opening,
    lead(message_id) OVER circle AS next, lead(opening) OVER circle AS next_opening,
    first_value(message_id) OVER circle + {last_id} AS around, first_value(opening) OVER circle AS around_opening
FROM {opened} WINDOW circle AS (PARTITION BY sender ORDER BY message_id);

CREATE VIEW closed AS
SELECT sender, message_id, coalesce(next, around) AS next,
    opening = CASE WHEN next IS NULL THEN around_opening ELSE next_opening END AS same
FROM {followed};

-- Runs of ids that a sender gave, within one opening, to nothing that anybody recorded. Ids run in a circle (T-40):
-- behind the last comes the first. An opening is known where the sender recorded; else all of one sender's ids count as
-- of the same. A larger gap is the part of the circle that was never used.
CREATE VIEW gaps AS
SELECT sender, message_id AS after, (next - 1) % {last_id} + 1 AS before, next - message_id - 1 AS missing
FROM {closed} WHERE next - message_id - 1 BETWEEN 1 AND {small_gap} AND coalesce(same, TRUE);
