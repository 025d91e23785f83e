"""Bugs in what is on disk: the store and the recordings.

The idea: durability, privacy and every checksum are each missing once.
"""

from __future__ import annotations

from .bug import Bug

SQLITE_FILE = "transports/tolliver_transports/_store/file.py"
SQLITE = "transports/tolliver_transports/_store/sqlite.py"
LOCK = "transports/tolliver_transports/_store/lock.py"
MARK = "transports/tolliver_transports/_store/mark.py"
ROOM = "transports/tolliver_transports/_store/room.py"
OWED = "transports/tolliver_transports/_store/owed.py"
BATCHES = "transports/tolliver_transports/_store/batches.py"
CHECKS = "transports/tolliver_transports/_store/checks.py"
MIGRATION = "transports/tolliver_transports/_store/migration.py"
COPYING = "transports/tolliver_transports/_store/copying.py"
RECORDING = "tolliver_proto/recording.py"
RECORDER = "transports/tolliver_transports/_messages/recorder.py"

BUGS = (
    Bug(
        "synchronous NORMAL",
        SQLITE_FILE,
        "",
        '"PRAGMA synchronous = FULL"',
        '"PRAGMA synchronous = NORMAL"',
        ("tests/store/test_power_loss.py::test_every_commit_is_synced",),
    ),
    Bug(
        "ids of an older layout are not counted as handed out",
        MIGRATION,
        "",
        "_HANDED_OUT = 2**24",
        "_HANDED_OUT = 0",
        ("tests/store/test_opening.py::test_a_database_of_the_second_layout_counts_the_ids_before_its_next_one",),
    ),
    Bug(
        "a copy takes another file's place",
        COPYING,
        "_name",
        "os.link(draft, target)",
        "os.rename(draft, target)",
        ("tests/store/test_backup.py::test_no_file_is_overwritten",),
    ),
    Bug(
        "a copy is not of one moment",
        COPYING,
        "write_copy",
        'source.execute("BEGIN")',
        "",
        ("tests/store/test_backup.py::test_a_copy_is_what_is_stored_at_its_beginning",),
    ),
    Bug(
        "a copy has its name before it is on the disk",
        COPYING,
        "write_copy",
        "_sync(draft)",
        "",
        ("tests/store/test_backup.py::test_a_copy_is_on_the_disk_before_it_has_its_name",),
    ),
    Bug(
        "a copy is not sealed",
        COPYING,
        "_fill",
        "write_seal(copy)",
        "",
        ("tests/store/test_backup.py::test_a_copy_is_what_is_stored_at_its_beginning",),
    ),
    Bug(
        "a copy that is given up goes on",
        SQLITE,
        "SQLiteStore._look",
        "self._ending",
        "False",
        ("tests/store/test_backup.py::test_closing_gives_a_copy_up_and_waits_for_that",),
    ),
    Bug(
        "no CRC of dead letters",
        SQLITE,
        "SQLiteStore.dead_letters",
        "crc == letter_check(content, number, peer, attempts, failed_at)",
        "True",
        ("tests/store/test_upkeep.py::test_a_damaged_letter_is_left_out",),
    ),
    Bug(
        "half a commit",
        SQLITE_FILE,
        "DatabaseFile.transaction",
        'connection.execute("BEGIN")',
        "",
        ("tests/store/test_power_loss.py::test_every_commit_is_synced",),
    ),
    Bug(
        "a commit that failed is kept",
        SQLITE_FILE,
        "DatabaseFile.transaction",
        """
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        """,
        """
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("COMMIT")
        """,
        ("tests/store/test_failures.py::test_nothing_is_half_written_and_it_works_again",),
    ),
    Bug(
        "a database that others may read",
        SQLITE_FILE,
        "DatabaseFile._create",
        "os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)",
        "os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)",
        ("tests/store/test_opening.py::test_every_file_is_its_owners_alone",),
    ),
    Bug(
        "two instances on one database",
        LOCK,
        "Lock._take_beside",
        "fcntl.LOCK_EX",
        "fcntl.LOCK_SH",
        ("tests/store/test_lost_files.py::test_where_files_have_no_such_locks_the_one_beside_is_enough",),
    ),
    Bug(
        "a forked child goes on with the store",
        SQLITE_FILE,
        "",
        "os.register_at_fork(after_in_child=_disown_all)",
        "pass",
        ("tests/store/test_opening.py::test_a_forked_child_may_not_use_the_store_and_does_not_keep_the_lock",),
    ),
    Bug(
        "a hard link is another database",
        LOCK,
        "Lock.take_file",
        "found.st_nlink > 1",
        "False",
        ("tests/store/test_lost_files.py::test_a_hard_link_is_no_second_database",),
    ),
    Bug(
        "a second opening in the process drops the locks of the first",
        LOCK,
        "Lock.take_file",
        "self._beside is not None and identity in _used",
        "False",
        ("tests/store/test_lost_files.py::test_a_hard_link_is_no_second_database",),
    ),
    Bug(
        "a mount of the file is another lock",
        LOCK,
        "Lock.take_file",
        "fcntl.F_WRLCK",
        "fcntl.F_RDLCK",
        ("tests/store/test_lost_files.py::test_a_mount_of_the_file_is_the_same_lock",),
    ),
    Bug(
        "a commit into a file that is gone is confirmed",
        SQLITE_FILE,
        "DatabaseFile._confirm",
        "lost is None",
        "True",
        ("tests/store/test_lost_files.py::test_no_commit_is_confirmed_into_a_file_that_is_not_at_its_name",),
    ),
    Bug(
        "a database that was emptied is made anew",
        SQLITE_FILE,
        "DatabaseFile._open",
        "self._refuse_to_replace()",
        "",
        ("tests/store/test_lost_files.py::test_a_database_that_was_here_is_not_made_anew",),
    ),
    Bug(
        "commits are not counted",
        SQLITE_FILE,
        "DatabaseFile.transaction",
        "connection.execute(_COUNT, (self._commits + 1,))",
        "pass",
        ("tests/store/test_lost_files.py::test_a_database_that_another_program_has_looked_into_lacks_nothing",),
    ),
    Bug(
        "the mark stays as it was",
        MARK,
        "Mark.write",
        "_write(self._file, body + _CHECK.pack(crc32(body)), 0)",
        "pass",
        ("tests/store/test_lost_files.py::test_a_log_that_is_gone_or_cut_is_told",),
    ),
    Bug(
        "a torn mark is believed",
        MARK,
        "Mark._read",
        "(magic, instance, check) == (_MAGIC, self._instance, crc32(data[: _BODY.size]))",
        "instance == self._instance",
        ("tests/store/test_lost_files.py::test_a_mark_that_a_loss_of_power_has_spoilt_says_nothing",),
    ),
    Bug(
        "missing commits are told once",
        MARK,
        "Mark.__init__",
        "missing + max(0, before - commits)",
        "max(0, before - commits)",
        ("tests/store/test_lost_files.py::test_a_log_that_is_gone_or_cut_is_told",),
    ),
    Bug(
        "the reserve is never given up",
        ROOM,
        "Room.make",
        "not self._reserve.give_up()",
        "True",
        ("tests/store/test_full_disk.py::test_what_the_outbox_has_filled_drains_and_the_reserve_is_there_again",),
    ),
    Bug(
        "new messages are given the reserve",
        SQLITE_FILE,
        "DatabaseFile.write",
        "growth is not None or not self._room.make(error)",
        "not self._room.make(error)",
        ("tests/store/test_full_disk.py::test_what_the_outbox_has_filled_drains_and_the_reserve_is_there_again",),
    ),
    Bug(
        "the reserve does not come back",
        ROOM,
        "Room.restore",
        "self._shrink(connection)",
        "pass",
        ("tests/store/test_full_disk.py::test_what_the_outbox_has_filled_drains_and_the_reserve_is_there_again",),
    ),
    Bug(
        "min_free is not looked at",
        ROOM,
        "Room.require",
        "free < self._min_free",
        "False",
        ("tests/store/test_full_disk.py::test_below_min_free_new_messages_are_refused_and_removals_go_on",),
    ),
    Bug(
        "a newer layout is opened",
        SQLITE_FILE,
        "DatabaseFile._probe",
        "not 1 <= layout <= LAYOUT",
        "layout < 1",
        ("tests/store/test_opening.py::test_a_newer_layout_is_left_to_the_version_that_wrote_it",),
    ),
    Bug(
        "a crash is not noticed",
        SQLITE_FILE,
        "DatabaseFile._begin",
        "instance[1] is None or bool(self.damage)",
        "False",
        ("tests/store/test_opening.py::test_an_end_without_close_is_seen_once",),
    ),
    Bug(
        "the store's replace becomes add",
        SQLITE,
        "SQLiteStore._replace_peer_subscriptions",
        'self._execute("DELETE FROM peer_subscription WHERE peer = ?", (number,))',
        "",
        ("tests/store/test_upkeep.py::test_a_list_takes_the_place_of_the_one_before",),
    ),
    Bug(
        "handled ids of a forgotten peer stay on disk",
        SQLITE,
        "SQLiteStore._forget_peers",
        '("owed", "peer_subscription", "handled")',
        '("owed", "peer_subscription")',
        ("tests/store/test_upkeep.py::test_forgetting_many_at_once",),
    ),
    Bug(
        "a peer of a failed commit is known",
        SQLITE,
        "SQLiteStore._commit",
        """
        for peer in self._new_peers:
            self._peers.pop(peer, None)
        """,
        "",
        ("tests/store/test_failures.py::test_nothing_is_half_written_and_it_works_again",),
    ),
    Bug(
        "no CRC",
        BATCHES,
        "Directory.message",
        "crc32(body, _short(wire_id) ^ size ^ mix ^ place) == self.crcs[at]",
        "True",
        ("tests/store/test_damage.py::test_no_flipped_bit_is_silent",),
    ),
    Bug(
        "a bit of a directory costs its batch",
        BATCHES,
        "Directory.__init__",
        "said = with_bit_put_right(said, wrong) or said",
        "pass",
        ("tests/store/test_batches.py::test_a_flipped_bit_costs_one_message",),
    ),
    Bug(
        "a batch has no bound",
        BATCHES,
        "Messages.pieces",
        "end - begun > PIECE and at > start",
        "False",
        ("tests/store/test_batches.py::test_a_batch_has_a_bound_and_a_large_message_one_of_its_own",),
    ),
    Bug(
        "a bit of a share costs a peer its batch",
        CHECKS,
        "damage",
        '_put_right(connection) if table == "owed" else []',
        "[]",
        ("tests/store/test_damage.py::test_a_bit_of_a_share_that_changed_is_put_right",),
    ),
    Bug(
        "held messages stay for ever",
        SQLITE_FILE,
        "DatabaseFile._begin",
        "deliveries.drop_held()",
        "pass",
        ("tests/store/test_opening.py::test_what_is_held_and_owed_to_nobody_is_gone_after_a_restart",),
    ),
    Bug(
        "what is set aside is sent",
        OWED,
        "Deliveries.fetch",
        "bits = share.bits & ~share.parked_bits",
        "bits = share.bits",
        ("tests/store/test_upkeep.py::test_what_is_set_aside_is_not_fetched_until_it_is_put_back",),
    ),
    Bug(
        "a fetch over its bytes",
        OWED,
        "Deliveries.fetch",
        "left -= sum(row.size for row in found)",
        "pass",
        ("tests/store/test_sizes.py::test_opening_reads_no_bodies_and_fetching_only_those_that_fit",),
    ),
    Bug(
        "a body that does not fit is read",
        OWED,
        "Deliveries.fetch",
        "rows and share.first_seq == share.last_seq and share.size > left",
        "False",
        ("tests/store/test_sizes.py::test_opening_reads_no_bodies_and_fetching_only_those_that_fit",),
    ),
    Bug(
        "a batch in the place of another is believed",
        OWED,
        "Deliveries._batch",
        "directory is None or directory.first_seq != first",
        "directory is None",
        ("tests/store/test_damage.py::test_a_batch_in_the_place_of_another_is_noticed",),
    ),
    Bug(
        "a batch whose end changed goes with others still in it",
        OWED,
        "Deliveries._batches",
        "row[2] != batch_check(row[0], row[1])",
        "False",
        ("tests/store/test_damage.py::test_a_batch_whose_end_changed_keeps_what_is_owed",),
    ),
    Bug(
        "a damaged page takes its whole batch",
        OWED,
        "Deliveries._row",
        'return tuple(self._salvaged(first, column) for column in columns.split(", "))',
        "return None",
        ("tests/store/test_damage.py::test_a_damaged_page_leaves_what_stands_before_it_and_all_other_batches",),
    ),
    Bug(
        "a batch goes while another peer is owed of it",
        OWED,
        "Deliveries._thinned",
        "hole[1] <= 0 and not self._execute(_OWNERS, (first,)).fetchone()",
        "True",
        ("tests/store/test_sizes.py::test_any_number_of_rows",),
    ),
    Bug(
        "a batch with holes is never written anew",
        OWED,
        "Deliveries.tidy",
        "self._write_anew(first)",
        "pass",
        ("tests/store/test_sizes.py::test_a_file_has_no_more_than_twice_what_is_owed",),
    ),
    Bug(
        "a damaged message is made whole by its migration",
        MIGRATION,
        "_gather",
        "deliveries.spoil([message.seq for message, _, _, good, _ in piece if not good])",
        "pass",
        ("tests/store/test_migration.py::test_what_was_damaged_stays_so",),
    ),
    Bug(
        "recordings: no checksum of the payload",
        RECORDING,
        "Blocks.next_block",
        "crc32(payload) != head.payload_crc32",
        "False",
        ("tests/wire/test_recording.py::test_no_flipped_bit_is_silent",),
    ),
    Bug(
        "recordings: no checksum of the header",
        RECORDING,
        "_read_head",
        'crc32(data[pos : pos + BLOCK.size - _CHECKSUM.size]) != values["header_crc32"]',
        "False",
        ("tests/wire/test_recording.py::test_no_flipped_bit_is_silent",),
    ),
    Bug(
        "recordings: another recording's index is believed",
        RECORDING,
        "Index.fits",
        "self.length == length and self.first == crc32(start[: BLOCK.size])",
        "self.length == length",
        ("tests/wire/test_recording.py::test_an_index_is_only_that_of_its_recording",),
    ),
    Bug(
        "recordings: a torn block is not told",
        RECORDING,
        "Blocks.finish",
        "self._stopped or not rest",
        "True",
        ("tests/wire/test_recording.py::test_a_torn_file_gives_what_is_whole_and_says_where_it_is_torn",),
    ),
    Bug(
        "recordings: an index that covers a torn end",
        RECORDING,
        "build_index",
        "isinstance(head, str) or indexer.length + BLOCK.size + head.length > length",
        "isinstance(head, str)",
        ("tests/wire/test_recording.py::test_an_index_that_is_made_anew_ends_where_the_damage_begins",),
    ),
    Bug(
        "recordings: others may read them",
        RECORDER,
        "_create",
        "os.open(name, flags, 0o600)",
        "os.open(name, flags, 0o644)",
        ("tests/adapters/test_recorder.py::test_nobody_else_may_read_them",),
    ),
    Bug(
        "recordings: what waits has no bound",
        RECORDER,
        "Recorder._give",
        "self.waiting + cost > self._queue_bytes",
        "False",
        ("tests/adapters/test_recorder.py::test_a_full_queue_ends_the_recording_of_that_connection_alone",),
    ),
    Bug(
        "recordings: a hole in a direction",
        RECORDER,
        "Recorder._stop",
        "self._stopped.add(cid)",
        "",
        ("tests/adapters/test_recorder.py::test_a_full_queue_ends_the_recording_of_that_connection_alone",),
    ),
    Bug(
        "recordings: half a frame is written",
        RECORDER,
        "_Writer._blocks",
        """
        payload = bytes(memoryview(tail.data)[: found.end])
        del tail.data[: found.end if found.wanted is not None else None]
        """,
        """
        payload = bytes(tail.data)
        tail.data.clear()
        """,
        ("tests/adapters/test_recorder.py::test_whole_frames_of_both_directions_however_they_are_cut",),
    ),
    Bug(
        "recordings: a full disk leaves half a block",
        RECORDER,
        "_Files.abandon",
        "self._file.truncate(self._indexer.length)",
        "pass",
        ("tests/adapters/test_recorder.py::test_a_disk_that_is_full_ends_it_with_what_is_whole",),
    ),
    Bug(
        "recordings: files never end",
        RECORDER,
        "_Files.write",
        "length and length + len(block) > self._file_bytes",
        "False",
        ("tests/adapters/test_recorder.py::test_files_end_and_the_next_begins",),
    ),
)
