"""Changes of the model, each a mistake that a program could make, and the promise that breaks by it."""

from __future__ import annotations

from typing import NamedTuple


class Plant(NamedTuple):
    """A mistake: the text of the model that it replaces, once, and the invariant that must refuse it."""

    name: str
    text: str
    by: str
    invariant: str  # or several, of which TLC may meet any first
    keys: str = ""  # of the calls, where those of MC.tla do not come to the mistake


PLANTS = [
    # Commits.
    Plant(
        "no fsync before the send",
        r'Committed == {r \in cache.rows : r \notin batch \/ phase = "synced"}',
        r"Committed == cache.rows",
        "SentIsOnDisk",
    ),
    Plant(
        "send returns before the fsync",
        '/\\ phase = "synced"\n',
        '/\\ phase \\in {"written", "synced"}\n',
        "NothingIsLost",
    ),
    Plant(
        "send returns before the commit",
        '/\\ phase = "synced"\n',
        '/\\ (phase = "synced" \\/ batch # {})\n',
        "NothingIsLost",
    ),
    Plant(
        "a commit that failed leaves its rows",
        "/\\ UNCHANGED <<phase, cache, disk, cursor, copy, behind, told, doubt, released, up, link, receiver, synced>>",
        "/\\ cache' = WithBatch(cache)\n"
        "    /\\ UNCHANGED <<phase, disk, cursor, copy, behind, told, doubt, released, up, link, receiver, synced>>",
        "RefusedIsNowhere",
    ),
    Plant(
        "a commit that failed leaves its keys",
        "/\\ UNCHANGED <<phase, cache, disk, cursor, copy, behind, told, doubt, released, up, link, receiver, synced>>",
        "/\\ cache' = [cache EXCEPT !.keys = WithBatch(cache).keys]\n"
        "    /\\ UNCHANGED <<phase, disk, cursor, copy, behind, told, doubt, released, up, link, receiver, synced>>",
        "AcknowledgedIsHandled",
    ),
    Plant(
        "an opening sends what its predecessor wrote, without an fsync",
        "    /\\ disk' = cache\n    /\\ synced' = synced \\cup Rows(cache)\n    /\\ told'",
        "    /\\ UNCHANGED <<disk, synced>>\n    /\\ told'",
        "SentIsOnDisk NothingIsLost",
    ),
    Plant(
        "a send that was killed counts as stored",
        '/\\ app\' = [m \\in Messages |-> IF app[m] = "pending" THEN "unknown" ELSE app[m]]',
        '/\\ app\' = [m \\in Messages |-> IF app[m] = "pending" THEN "stored" ELSE app[m]]',
        "NothingIsLost",
    ),
    Plant(
        "a send to nobody is called stored",
        '/\\ app\' = [app EXCEPT ![m] = "nobody"]',
        '/\\ app\' = [app EXCEPT ![m] = "stored"]',
        "NothingIsLost",
    ),
    # Ids.
    Plant(
        "an id is given again while its message waits",
        r"/\ i \notin Live        \* T-40",
        r"/\ TRUE \* T-40",
        "IdsAreOne",
    ),
    Plant("an id comes round while it is remembered", r"/\ i \notin Noted", r"/\ TRUE", "AcknowledgedIsHandled"),
    # Acknowledgements.
    Plant(
        "an ack settles all lower ids",
        r"LET acked == {r \in Committed : r.id = f.id}",
        r"LET acked == {r \in Committed : r.id <= f.id}",
        "AcknowledgedIsHandled",
    ),
    Plant(
        "a message is acknowledged when it is received",
        "/\\ inbox' = inbox \\cup {Row(f.m, f.id)}\n          /\\ net' = rest",
        "/\\ inbox' = inbox \\cup {Row(f.m, f.id)}\n          /\\ net' = rest \\cup {Answer(f.id)}",
        "AcknowledgedIsHandled",
    ),
    Plant(
        "a copy of what is being handled is acknowledged",
        "\\/ /\\ want /\\ Note(f.id, f.m) \\notin rcache.notes\n",
        "\\/ /\\ want /\\ Row(f.m, f.id) \\in inbox\n"
        "          /\\ net' = rest \\cup {Answer(f.id)} /\\ UNCHANGED inbox\n"
        "       \\/ /\\ want /\\ Note(f.id, f.m) \\notin rcache.notes\n",
        "AcknowledgedIsHandled",
    ),
    Plant(
        "a copy is acknowledged before the commit of the first",
        "/\\ net' = rest /\\ UNCHANGED inbox         \\* not on disk yet",
        "/\\ net' = rest \\cup {Answer(f.id)} /\\ UNCHANGED inbox \\* not on disk yet",
        "AcknowledgedIsHandled",
    ),
    Plant(
        "an effect is acknowledged before its fsync",
        "    /\\ rdisk' = rcache\n    /\\ handled' = {}",
        "    /\\ rdisk' = rdisk\n    /\\ handled' = {}",
        "AcknowledgedIsHandled",
    ),
    Plant(
        "a handler that fails acknowledges",
        "    /\\ inbox' = inbox \\ {r}\n    /\\ UNCHANGED <<sender, link, want, grace, handled",
        "    /\\ inbox' = inbox \\ {r}\n    /\\ net' = IF conn THEN net \\cup {Answer(r.id)} ELSE net\n"
        "    /\\ UNCHANGED <<sender, conn, want, grace, handled",
        "AcknowledgedIsHandled",
    ),
    # Copies of messages.
    Plant(
        "copies are not looked up",
        "\\/ /\\ want /\\ Note(f.id, f.m) \\notin rcache.notes\n",
        "\\/ /\\ want\n",
        "EffectsHappenOnce",
    ),
    Plant(
        "an effect without its note",
        "!.notes = @ \\cup {Note(r.id, r.m)}, !.done[r.m] = @ + 1",
        "!.done[r.m] = @ + 1",
        "EffectsHappenOnce",
    ),
    Plant(
        "a note without its effect",
        "!.notes = @ \\cup {Note(r.id, r.m)}, !.done[r.m] = @ + 1",
        "!.notes = @ \\cup {Note(r.id, r.m)}",
        "AcknowledgedIsHandled",
    ),
    Plant(
        "a note is forgotten while a copy may come",
        "    /\\ n[1] \\notin Live /\\ n[1] \\notin InTheAir\n    /\\ up",
        "    /\\ up",
        "EffectsHappenOnce",
    ),
    # Keys.
    Plant(
        "a key is not stored",
        "IF k # 0 /\\ \\E r \\in batch : KeyOf[r.m] = k THEN",
        "IF FALSE THEN",
        "KeysAreOne NothingIsLost",
    ),
    Plant(
        "a key under way is not looked up",
        "KeyInBatch(m) == IsKeyed(m) /\\",
        "KeyInBatch(m) == FALSE /\\",
        "KeysAreOne",
        keys="<<1, 1, 0, 0>>",  # both calls in one commit, which has no id for a third
    ),
    Plant(
        "a second send is answered before the commit of the first",
        "/\\ ~KeyIsKnown(m) /\\ KeyInBatch(m)        \\* it waits with the first\n"
        '          /\\ app\' = [app EXCEPT ![m] = "pending"]',
        '/\\ ~KeyIsKnown(m) /\\ KeyInBatch(m)\n          /\\ app\' = [app EXCEPT ![m] = "stored"]',
        "NothingIsLost",
    ),
    Plant(
        "a key whose message waits is called acknowledged",
        'CASE first \\in {r.m : r \\in cache.rows} -> "stored"',
        'CASE first \\in {r.m : r \\in cache.rows} -> "acked"',
        "AcknowledgedIsHandled",
    ),
    Plant(
        "a key whose message was given up is called acknowledged",
        '[] first \\in cache.gone -> "gave up"',
        '[] first \\in cache.gone -> "acked"',
        "AcknowledgedIsHandled",
    ),
    Plant(
        "a send to nobody takes its key",
        "KeyIsKnown(m) == IsKeyed(m) /\\ cache.keys[KeyOf[m]] # 0",
        "KeyIsKnown(m) == IsKeyed(m) /\\ (cache.keys[KeyOf[m]] # 0\n"
        '    \\/ \\E other \\in Messages : KeyOf[other] = KeyOf[m] /\\ app[other] = "nobody")',
        "AcknowledgedIsHandled",
    ),
    # Holds.
    Plant(
        "held messages are sent",
        '/\\ up /\\ conn /\\ ~doubt /\\ cache.peer # "held"',
        "/\\ up /\\ conn /\\ ~doubt",
        "AcknowledgedIsHandled",
    ),
    Plant(
        "a list that lacks the channel ends it at once",
        'IF want THEN "listed" ELSE IF peer = "listed" THEN "held" ELSE peer',
        'IF want THEN "listed" ELSE "none"',
        "AcknowledgedIsHandled",
    ),
    Plant(
        "a hold ends, and nobody is told",
        'IF app[m] = "stored" /\\ First(m, cache) \\in Rows(cache) THEN "gave up" ELSE app[m]]',
        "app[m]]",
        "NothingIsLost",
    ),
    Plant(
        "a hold ends, and its rows stay",
        '!.peer = "none", !.rows = {}, !.gone',
        '!.peer = "none", !.gone',
        "GivenUpIsGone",
    ),
    Plant(
        "who subscribes again loses what was held",
        'THEN /\\ cache\' = [cache EXCEPT !.peer = "listed"]',
        'THEN /\\ cache\' = [cache EXCEPT !.peer = "listed", !.rows = {}]',
        "NothingIsLost",
    ),
    # Databases that are put back.
    Plant(
        "a sender that was put back tells nobody", "/\\ told' = (told \\/ behind)", "/\\ told' = told", "NothingIsLost"
    ),
    Plant(
        "a sender that was put back sends what went out before",
        "/\\ doubt' = (doubt \\/ (behind /\\ cache.rows # {}))",
        "/\\ doubt' = doubt",
        "EffectsHappenOnce",
    ),
    Plant(
        "a receiver that was put back tells nobody",
        "/\\ rtold' = (rtold \\/ rbehind)",
        "/\\ rtold' = rtold",
        "NothingIsLost AcknowledgedIsHandled",
    ),
    Plant(
        "notes are put back without their effects",
        "/\\ rcache' = rcopy /\\ rdisk' = rcopy",
        "/\\ rcache' = [rcache EXCEPT !.notes = rcopy.notes] /\\ rdisk' = rcache'",
        "EffectsHappenOnce",
    ),
    Plant(
        "a receiver that was put back has no mark",
        "    /\\ rbehind' = (rbehind \\/ rcopy # rcache)",
        "    /\\ rbehind' = rbehind",
        "NothingIsLost AcknowledgedIsHandled",
    ),
]
