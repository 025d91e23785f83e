-- tolliver: Wireshark dissector of its messages, and of Reactive Streams over a network (docs/wireshark.md).
--
-- `LAYOUTS` has the bytes of each revision as data, as `tolliver_proto.layouts` has them, from which it is drawn
-- (scripts/draw/wireshark.py). A line is in the order of the wire: numbers of 1, 2, 4 and 8 bytes (B, H, I, Q), a UUID
-- (16s), and parts (*), each as long as the number of its name says. Nothing else here knows one layout from another,
-- but for `guess`.
--
-- A packet is dissected several times, in any order, and only the first time in the order of the capture. All that
-- depends on what came before is therefore kept in a memo for each frame of the protocol, and read again later.
--
-- Runs on Lua 5.1 to 5.4, so it has no bit operators and no integer division.

-- Layouts.

-- drawn: layouts
local NAMES = { "DRAFT_1", "DRAFT_2", "GO_SEED", "GO_D05F89B", "GO_499B76D", "GO_2026", "RUST_2026", "DRAFT_2_LETTER" }
local LAYOUTS = {
  DRAFT_1 = {
    codes = { [0] = "request", [1] = "response", [2] = "final", [3] = "message", [4] = "ack" },
    request = "B code, Q version, 16s instance_id, I count",
    response = "B code, Q version, 16s instance_id, B status, I count",
    final = "B code, B final",
    message = "B code, I channel, I key, I body, I message_id, *channel, *key, *body",
    ack = "B code, I message_id",
    entry = "I channel, I key, *channel, *key",
    list_prefix = "",
    statuses = { [0] = "same_version", [1] = "newer_compatible", [2] = "newer_incompatible", [3] = "older" },
    acks = { [0] = "handled" },
    finals = { [0] = true, [1] = false },
    controls = { subscribe = "" },
    control_count = "",
    unreliable_id = "2147483647",
    final_always = false,
  },
  DRAFT_2 = {
    codes = { [0] = "request", [1] = "response", [2] = "final", [3] = "message", [4] = "ack" },
    request = "B code, Q version, 16s instance_id, I count",
    response = "B code, Q version, 16s instance_id, B status, I count",
    final = "B code, B final",
    message = "B code, I channel, I key, I body, I message_id, *channel, *key, *body",
    ack = "B code, I message_id",
    entry = "I channel, I key, *channel, *key",
    list_prefix = "",
    statuses = { [0] = "same_version", [1] = "newer_compatible", [2] = "newer_incompatible", [3] = "older" },
    acks = { [0] = "handled" },
    finals = { [1] = true, [2] = false },
    controls = { subscribe = "\0", unsubscribe = "\1" },
    control_count = "",
    unreliable_id = "2147483647",
    final_always = false,
  },
  GO_SEED = {
    codes = { [0] = "request", [1] = "response", [2] = "final", [3] = "message", [4] = "ack" },
    request = "B code, Q version, 16s instance_id, I count",
    response = "B code, Q version, 16s instance_id, B status, I count",
    final = "B code, B final",
    message = "B code, I channel, I key, I body, I message_id, *channel, *key, *body",
    ack = "B code, I message_id",
    entry = "I channel, I key, *channel, *key",
    list_prefix = "",
    statuses = { [0] = "same_version", [1] = "newer_compatible", [2] = "newer_incompatible", [3] = "older" },
    acks = { [0] = "handled" },
    finals = { [1] = true, [2] = false },
    controls = { subscribe = "\0", unsubscribe = "\1" },
    control_count = "",
    unreliable_id = "4294967295",
    final_always = false,
  },
  GO_D05F89B = {
    codes = { [0] = "request", [1] = "response", [2] = "final", [3] = "message", [4] = "ack" },
    request = "B code, Q version, 16s instance_id, I count",
    response = "B code, Q version, 16s instance_id, B status, I count",
    final = "B code, B final",
    message = "B code, I channel, I key, I body, I message_id, *channel, *key, *body",
    ack = "B code, I message_id",
    entry = "I channel, I key, *channel, *key",
    list_prefix = "",
    statuses = { [0] = "same_version", [1] = "newer_compatible", [2] = "newer_incompatible", [3] = "older" },
    acks = { [0] = "handled" },
    finals = { [1] = true, [2] = false },
    controls = { subscribe = "\0", unsubscribe = "\1" },
    control_count = "",
    unreliable_id = "0",
    final_always = false,
  },
  GO_499B76D = {
    codes = { [0] = "request", [1] = "response", [2] = "final", [3] = "message", [4] = "ack" },
    request = "B code, Q version, 16s instance_id, I count",
    response = "B code, Q version, 16s instance_id, B status, I count",
    final = "B code, B final",
    message = "B code, I channel, I key, I body, I message_id, *channel, *key, *body",
    ack = "B code, I message_id",
    entry = "I channel, I key, *channel, *key",
    list_prefix = "",
    statuses = { [0] = "same_version", [2] = "newer_compatible", [3] = "newer_incompatible", [4] = "older" },
    acks = { [0] = "handled" },
    finals = { [2] = true, [3] = false },
    controls = { subscribe = "\0", unsubscribe = "\1" },
    control_count = "",
    unreliable_id = "4294967295",
    final_always = false,
  },
  GO_2026 = {
    codes = { [0] = "request", [1] = "response", [2] = "final", [3] = "message", [4] = "ack" },
    request = "B code, Q version, 16s instance_id, Q count",
    response = "B code, Q version, 16s instance_id, B status, Q count",
    final = "B code, B final",
    message = "B code, Q message_id, Q channel, *channel, Q key, *key, Q body, *body",
    ack = "B code, B status, Q message_id",
    entry = "Q channel, *channel, Q key, *key",
    list_prefix = "",
    statuses = { [0] = "same_version", [1] = "failed", [2] = "newer_compatible", [3] = "newer_incompatible", [4] = "older" },
    acks = { [0] = "handled", [1] = "refused" },
    finals = { [0] = true, [2] = false },
    controls = { subscribe = "\0", unsubscribe = "\1" },
    control_count = "Q count",
    unreliable_id = "0",
    final_always = false,
  },
  RUST_2026 = {
    codes = { [0] = "request", [1] = "response", [2] = "final", [3] = "message" },
    request = "B code, Q version, 16s instance_id",
    response = "B code, Q version, 16s instance_id, B status",
    final = "B code, B final",
    message = "B code, I message_id, H channel, *channel, H key, *key, H body, *body",
    ack = "",
    entry = "H channel, *channel, H key, *key",
    list_prefix = "",
    statuses = { [0] = "same_version", [1] = "failed", [2] = "newer_compatible", [3] = "newer_incompatible", [4] = "older" },
    acks = { [0] = "handled" },
    finals = { [0] = true, [2] = false },
    controls = {},
    control_count = "",
    unreliable_id = "0",
    final_always = true,
  },
  DRAFT_2_LETTER = {
    codes = { [0] = "request", [1] = "response", [2] = "final", [3] = "message", [4] = "ack" },
    request = "B code, Q version, 16s instance_id, I count",
    response = "B code, Q version, 16s instance_id, B status, I count",
    final = "B code, B final",
    message = "B code, I channel, I key, I body, I message_id, *channel, *key, *body",
    ack = "B code, I message_id",
    entry = "I channel, I key, *channel, *key",
    list_prefix = "\0",
    statuses = { [0] = "same_version", [1] = "newer_compatible", [2] = "newer_incompatible", [3] = "older" },
    acks = { [0] = "handled" },
    finals = { [1] = true, [2] = false },
    controls = { subscribe = "\0", unsubscribe = "\1" },
    control_count = "",
    unreliable_id = "2147483647",
    final_always = false,
  },
}
-- end

local WIDTHS = { B = 1, H = 2, I = 4, Q = 8, ["16s"] = 16 }
local OTHER_NAMES = { message_id = "id", instance_id = "instance" }

-- The items of a line, and for each what the fixed ones from it on take, and whether one of those tells a length. A
-- part's length has a name of its own.
local function items_of(spec)
  local items, rest = {}, 0
  for part in (spec .. ","):gmatch("%s*(.-),") do
    local kind, name = part:match("^(%S+)%s+(%S+)$")
    if not kind then
      kind, name = "bytes", part:sub(2)
    elseif spec:find("*" .. name, 1, true) then
      name = name .. "_length"
    end
    if name ~= "" then
      items[#items + 1] = { name = OTHER_NAMES[name] or name, kind = kind, width = WIDTHS[kind] or 0 }
    end
    if name == "count" then items[#items + 1] = { name = "entries", kind = "entries", width = 0 } end
  end
  local tells = false
  for i = #items, 1, -1 do
    rest = rest + items[i].width
    tells = tells or items[i].kind == "entries" or items[i].name:find("_length$") ~= nil
    items[i].rest, items[i].tells = rest, tells
  end
  return items
end

local function with_items(name, layout)
  local made = { name = name, codes = layout.codes, statuses = layout.statuses, acks = layout.acks, finals = layout.finals }
  made.unreliable, made.final_always = layout.unreliable_id, layout.final_always
  for _, frame in pairs(layout.codes) do made[frame] = items_of(layout[frame]) end
  made.entry, made.list_prefix = items_of(layout.entry), layout.list_prefix
  made.controls = {}
  for _, kind in ipairs({ "subscribe", "unsubscribe" }) do
    local prefix = layout.controls[kind]
    if prefix then
      local items = layout.control_count == "" and made.entry or items_of(layout.control_count)
      made.controls[#made.controls + 1] = { name = kind, prefix = prefix, items = items }
    end
  end
  return made
end

for _, name in ipairs(NAMES) do LAYOUTS[name] = with_items(name, LAYOUTS[name]) end

local STREAM_FRAMES = {
  [1] = { "clientHello", "version", "extensions" },
  [2] = { "serverHello", "version", "extensions" },
  [3] = { "subscribe", "name", "own_id", "initial_demand" },
  [4] = { "request", "own_id", "count" },
  [5] = { "cancel", "own_id" },
  [6] = { "subscribed", "stream_id", "element_size" },
  [7] = { "onNext", "stream_id", "element" },
  [8] = { "onComplete", "stream_id" },
  [9] = { "onError", "stream_id", "text" },
  [10] = { "onNextPacked", "stream_id", "elements" },
  [11] = { "goodbye", "text" },
}
local MAX_ELEMENT, MAX_PACKED, MAX_TEXT, MAX_EXTENSIONS = 2 ^ 24, 2 ^ 20, 2 ^ 16, 1024
local PORT, STREAM_PORT = 7011, 7012
local MOST_AT_ONCE = 0x0ffffff0 -- larger numbers have a meaning of their own as desegment_len
local IN_INFO = 8 -- frames that the Info column names

-- Fields. `tolliver.peer` is there twice, for both ends, so that a filter need not know who is who.

local first, messages = pcall(Proto, "tolliver", "Tolliver")
if not first then -- such as an installed copy before that of -X, whose protocol would have the same name
  io.stderr:write("tolliver.lua: another copy of it is loaded already and stands; remove that to use this one\n")
  return
end
local streams = Proto("tolliver_rs", "Reactive Streams over a network")

local f = {
  type = ProtoField.string("tolliver.type", "Frame"),
  code = ProtoField.uint8("tolliver.code", "Code"),
  layout = ProtoField.string("tolliver.layout", "Layout"),
  version = ProtoField.uint64("tolliver.version", "Version"),
  instance = ProtoField.guid("tolliver.instance", "Instance"),
  sender = ProtoField.string("tolliver.sender", "Sender"),
  receiver = ProtoField.string("tolliver.receiver", "Receiver"),
  peer = ProtoField.string("tolliver.peer", "Peer"),
  status = ProtoField.uint8("tolliver.status", "Status"),
  final = ProtoField.uint8("tolliver.final", "Final"),
  meaning = ProtoField.string("tolliver.meaning", "Meaning"),
  count = ProtoField.uint64("tolliver.count", "Subscriptions"),
  entry = ProtoField.bytes("tolliver.subscription", "Subscription"),
  entry_channel_length = ProtoField.uint64("tolliver.subscription.channel_length", "Channel length"),
  entry_key_length = ProtoField.uint64("tolliver.subscription.key_length", "Key length"),
  entry_channel = ProtoField.string("tolliver.subscription.channel", "Channel"),
  entry_key = ProtoField.string("tolliver.subscription.key", "Key"),
  channel_length = ProtoField.uint64("tolliver.channel_length", "Channel length"),
  key_length = ProtoField.uint64("tolliver.key_length", "Key length"),
  body_length = ProtoField.uint64("tolliver.body_length", "Body length"),
  id = ProtoField.uint64("tolliver.id", "Id"),
  reliable = ProtoField.bool("tolliver.reliable", "Reliable"),
  channel = ProtoField.string("tolliver.channel", "Channel"),
  key = ProtoField.string("tolliver.key", "Key"),
  body = ProtoField.bytes("tolliver.body", "Body"),
  control = ProtoField.string("tolliver.control", "Control message"),
  ignored = ProtoField.string("tolliver.ignored", "Not understood"),
  ack_in = ProtoField.framenum("tolliver.ack_in", "Acknowledged in", base.NONE, frametype.ACK),
  ack_of = ProtoField.framenum("tolliver.ack_of", "Acknowledges the message in", base.NONE, frametype.ACK),
  ack_time = ProtoField.double("tolliver.ack_time", "Seconds until the acknowledgement"),
  copy_of = ProtoField.framenum("tolliver.copy_of", "Copy of the message in", base.NONE, frametype.RETRANS_PREV),
  request_in = ProtoField.framenum("tolliver.request_in", "Request in", base.NONE, frametype.REQUEST),
  response_in = ProtoField.framenum("tolliver.response_in", "Response in", base.NONE, frametype.RESPONSE),
  expert = ProtoField.string("tolliver.expert", "Complaint"),
  unread = ProtoField.bytes("tolliver.unread", "Not read"),
}
messages.fields = f

local s = {
  type = ProtoField.string("tolliver_rs.type", "Frame"),
  code = ProtoField.uint64("tolliver_rs.code", "Type"),
  version = ProtoField.uint64("tolliver_rs.version", "Version"),
  count_of = ProtoField.uint64("tolliver_rs.extensions", "Extensions"),
  extension = ProtoField.uint64("tolliver_rs.extension", "Extension"),
  name = ProtoField.string("tolliver_rs.name", "Name"),
  id = ProtoField.uint64("tolliver_rs.id", "Subscriber id"),
  initial_demand = ProtoField.int64("tolliver_rs.initial_demand", "Initial demand"),
  count = ProtoField.int64("tolliver_rs.count", "Count"),
  element_size = ProtoField.uint64("tolliver_rs.element_size", "Element size"),
  element = ProtoField.bytes("tolliver_rs.element", "Element"),
  packed = ProtoField.uint64("tolliver_rs.packed", "Elements"),
  text = ProtoField.string("tolliver_rs.text", "Text"),
  length = ProtoField.uint64("tolliver_rs.length", "Length"),
  stream = ProtoField.string("tolliver_rs.stream", "Stream"),
  subscribe_in = ProtoField.framenum("tolliver_rs.subscribe_in", "Subscribed for in", base.NONE, frametype.REQUEST),
  subscribed_in = ProtoField.framenum("tolliver_rs.subscribed_in", "Answered in", base.NONE, frametype.RESPONSE),
  expert = ProtoField.string("tolliver_rs.expert", "Complaint"),
  unread = ProtoField.bytes("tolliver_rs.unread", "Not read"),
}
streams.fields = s

-- Expert infos, by the ruling that each is about. Each is a filter by its own name, which Wireshark gives it, and a value
-- of one field for all of them, which it does not.

local function experts_of(proto, prefix, field, list)
  local made, all = {}, {}
  for name, info in pairs(list) do
    local one = ProtoExpert.new(prefix .. name, info[3], expert.group[info[1]], expert.severity[info[2]])
    made[name] = { name = name, field = field, info = one }
    all[#all + 1] = one
  end
  proto.experts = all
  return made
end

local e = experts_of(messages, "tolliver.expert.", f.expert, {
  unknown_type = { "MALFORMED", "ERROR", "No frame begins with this byte (T-05)" },
  unknown_status = { "MALFORMED", "ERROR", "The status has no meaning (T-60)" },
  bad_uuid = { "MALFORMED", "ERROR", "The UUID names nobody (T-03)" },
  bad_list_entry = { "MALFORMED", "ERROR", "An entry that does not begin with the code of a subscription (T-04)" },
  bad_text_in_list = { "MALFORMED", "ERROR", "A subscription that is not UTF-8 (T-10)" },
  too_long = { "MALFORMED", "ERROR", "Longer than the limit (T-06, T-07, T-08)" },
  too_many = { "MALFORMED", "ERROR", "More subscriptions than the limit (T-08)" },
  cut = { "UNDECODED", "WARN", "The rest of the frame is not in the capture" },
  behind = { "UNDECODED", "WARN", "Behind a frame that cannot be read" },
  bad_text = { "MALFORMED", "WARN", "A name that is not UTF-8: not delivered (T-10)" },
  bad_control = { "MALFORMED", "WARN", "A control message that says nothing (T-20)" },
  draft_1_control = { "PROTOCOL", "NOTE", "The body is a subscription as draft 1 has it (T-22)" },
  control_key = { "PROTOCOL", "WARN", "A control message with a key (T-27)" },
  control_without_id = { "PROTOCOL", "NOTE", "A control message without an id: not acknowledged (T-28)" },
  reserved = { "PROTOCOL", "WARN", "A subscription to the protocol's own channel (T-27)" },
  not_version_7 = { "PROTOCOL", "NOTE", "A UUID of another version than 7 (T-03)" },
  contradiction = { "PROTOCOL", "WARN", "The status contradicts the versions (T-60)" },
  odd_final = { "PROTOCOL", "WARN", "A final that is neither code: a failure (C1)" },
  too_early = { "SEQUENCE", "ERROR", "Before the handshake is over (T-63, T-64)" },
  refused = { "RESPONSE_CODE", "NOTE", "The handshake failed" },
  not_delivered = { "RESPONSE_CODE", "NOTE", "The receiver refused the message: its sender keeps it" },
  unexpected = { "SEQUENCE", "NOTE", "A response or final that nobody waits for: ignored (T-65)" },
  again = { "SEQUENCE", "NOTE", "A request on a live connection (T-66)" },
  changed = { "SEQUENCE", "ERROR", "A repeated request with another UUID or version (T-66)" },
  copy = { "SEQUENCE", "NOTE", "The message was sent before, under the same id (T-50)" },
  stray_ack = { "SEQUENCE", "NOTE", "No message of this connection has this id (T-44)" },
  second_ack = { "SEQUENCE", "NOTE", "Acknowledged before (T-44)" },
  unreliable_ack = { "SEQUENCE", "NOTE", "The id means unreliable: such an ack says nothing (T-42, T-80)" },
})

local r = experts_of(streams, "tolliver_rs.expert.", s.expert, {
  unknown_type = { "MALFORMED", "ERROR", "No frame has this type number (R-07)" },
  long_varint = { "MALFORMED", "ERROR", "A number of more than 64 bits (R-03)" },
  padded = { "PROTOCOL", "NOTE", "A number longer than it needs to be (R-03)" },
  bad_text = { "MALFORMED", "ERROR", "Text that is not UTF-8 (R-34)" },
  too_long = { "MALFORMED", "ERROR", "Longer than the limit (R-20, R-23, R-33, R-34)" },
  too_many = { "MALFORMED", "ERROR", "More extensions than the limit (R-27)" },
  not_packable = { "MALFORMED", "ERROR", "Packed elements in a stream without an element size (R-21)" },
  cut = { "UNDECODED", "WARN", "The rest of the frame is not in the capture" },
  behind = { "UNDECODED", "WARN", "Behind a frame that cannot be read" },
  unexpected = { "SEQUENCE", "ERROR", "Not the frame that may come here (R-25)" },
  version = { "PROTOCOL", "WARN", "Another version than 0 (R-26)" },
  unknown_id = { "SEQUENCE", "ERROR", "A signal for an id that was never subscribed (R-08)" },
  duplicate_id = { "SEQUENCE", "ERROR", "A subscribe with an id that is active (R-13)" },
  over = { "SEQUENCE", "NOTE", "For an id that is over or unknown: ignored (R-15)" },
  no_demand = { "PROTOCOL", "WARN", "A demand below what may be asked for: rule 3.9 (R-16)" },
  overflow = { "SEQUENCE", "WARN", "More elements than demand: rule 1.1 (R-18)" },
  not_subscribed = { "SEQUENCE", "ERROR", "Before the answer to the subscribe, or a second answer (R-19)" },
  empty = { "PROTOCOL", "NOTE", "Packed, and no element (R-22)" },
  after_goodbye = { "SEQUENCE", "NOTE", "After the goodbye: dropped (R-29)" },
})

-- Preferences.

local choices = { { 0, "AUTO", 0 } }
for number, name in ipairs(NAMES) do choices[number + 1] = { number, name, number } end
messages.prefs.layout = Pref.enum(
  "Layout", 0, "Of all connections. AUTO tells DRAFT_2, GO_2026 and RUST_2026 apart by the first request.", choices, false
)
messages.prefs.layouts = Pref.string(
  "Layouts by peer", "", "As UUID=NAME, PORT=NAME: of connections that this instance begins, or on this port. They come first."
)
messages.prefs.ports = Pref.range("Ports", tostring(PORT), "Where a first frame of any kind is taken for ours.", 65535)
messages.prefs.max_body = Pref.uint("Largest body", 2 ^ 24, "In bytes; a longer one is an error, as Limits.max_body has it.")
messages.prefs.max_name = Pref.uint("Longest name", 4096, "In bytes, as Limits.max_name has it.")
messages.prefs.max_subscriptions = Pref.uint("Most subscriptions", 10000, "Of a handshake, as Limits has it.")
messages.prefs.max_handshake = Pref.uint("Longest handshake", 2 ^ 20, "In bytes, as Limits has it.")
streams.prefs.ports = Pref.range("Ports", tostring(STREAM_PORT), "Where any first frame is taken for ours.", 65535)

-- State, of the capture that is open.

local connections, memos, cursor

local function forget()
  connections, memos = { messages = {}, streams = {} }, { messages = {}, streams = {} }
  cursor = { messages = { index = 0 }, streams = { index = 0 } }
end
forget()
messages.init = forget

-- By its addresses: other protocols' fields, such as the number of a TCP stream, are not always there.
local function connection(pinfo, kind)
  local one = tostring(pinfo.src) .. "/" .. pinfo.src_port
  local other = tostring(pinfo.dst) .. "/" .. pinfo.dst_port
  local key = one < other and one .. " " .. other or other .. " " .. one
  local known = connections[kind][key]
  if not known then
    known = { sides = {} }
    connections[kind][key] = known
  end
  return known
end

local function side_of(conn, pinfo)
  local key = tostring(pinfo.src) .. "/" .. pinfo.src_port
  local side = conn.sides[key]
  if not side then
    side = { sent = {}, subscribed = {}, frames = 0, progress = {} }
    conn.sides[key] = side
    if conn.first then
      conn.first.other, side.other = side, conn.first
    else
      conn.first = side
    end
  end
  return side
end

-- The memo of the next frame in this packet, new when the packet is seen for the first time.
local function peek(pinfo, kind)
  local at = cursor[kind]
  if at.number ~= pinfo.number then
    at = { number = pinfo.number, index = 0 }
    cursor[kind] = at
  end
  local list = memos[kind][pinfo.number]
  if not list then
    list = { partial = {} }
    memos[kind][pinfo.number] = list
  end
  if not pinfo.visited then return { notes = {} }, true end
  if at.index >= #list and not (list.partial[#list + 1] and not at.partial) then at.index, at.partial = 0, nil end
  local memo = list[at.index + 1]
  if not memo then
    memo = list.partial[at.index + 1]
    at.partial = true
  end
  return memo or { notes = {} }, false
end

local function keep(pinfo, kind, memo, fresh)
  local at = cursor[kind]
  at.index = at.index + 1
  if fresh then memos[kind][pinfo.number][at.index] = memo end
end

local function keep_partial(pinfo, kind, memo, fresh)
  if fresh then memos[kind][pinfo.number].partial[cursor[kind].index + 1] = memo end
end

local function note(memo, about, text)
  memo.notes[#memo.notes + 1] = { about, text }
end

local function complain(item, about, text)
  item:add(about.field, about.name):set_generated()
  if text then
    item:add_proto_expert_info(about.info, text)
  else
    item:add_proto_expert_info(about.info)
  end
end

local function show_notes(item, memo)
  for _, one in ipairs(memo.notes) do complain(item, one[1], one[2]) end
end

-- Text.

-- UTF-8 as strictly as Python reads it: no surrogates, nothing longer than it needs to be.
local function is_text(raw)
  if not raw:find("[\128-\255]") then return true end
  local i, size = 1, #raw
  while i <= size do
    local c = raw:byte(i)
    local more, low, high = 0, 0x80, 0xbf
    if c >= 0x80 then
      if c < 0xc2 or c > 0xf4 then return false end
      more = c < 0xe0 and 1 or c < 0xf0 and 2 or 3
      if c == 0xe0 then low = 0xa0 elseif c == 0xed then high = 0x9f end
      if c == 0xf0 then low = 0x90 elseif c == 0xf4 then high = 0x8f end
    end
    for k = 1, more do
      local d = raw:byte(i + k)
      if not d or d < low or d > high then return false end
      low, high = 0x80, 0xbf
    end
    i = i + more + 1
  end
  return true
end

-- A name on one line of a list: whole characters, none of them a control character.
local function shown(raw)
  if not is_text(raw) then return "(not UTF-8)" end
  if #raw > 60 then raw = raw:sub(1, 60):gsub("[\192-\255][\128-\191]*$", "") .. "..." end
  return (raw:gsub("%c", "."))
end

local function raw_at(tvb, at, size)
  if size == 0 then return "" end
  return tvb:raw(at, size)
end

local function add_text(item, field, tvb, at, size)
  if size == 0 then
    item:add(field, tvb(at, 0), "")
  else
    item:add_packet_field(field, tvb(at, size), ENC_UTF_8 + ENC_STRING)
  end
end

local function uuid_at(tvb, at)
  local hex = tvb(at, 16):bytes():tohex(true)
  return ("%s-%s-%s-%s-%s"):format(hex:sub(1, 8), hex:sub(9, 12), hex:sub(13, 16), hex:sub(17, 20), hex:sub(21))
end

-- Reading of messages' frames.

-- More bytes: so many where that is known, else as many as come next. Less than a frame needs, said as a number, would
-- have Wireshark lose the frame when it looks at the packet again.
local MORE = DESEGMENT_ONE_MORE_SEGMENT

-- Fails once, for what cannot be read: the complaint and its text.
local function broken(about, text)
  return nil, nil, { about = about, text = text }
end

local function limit_of(name)
  if name == "body" then return messages.prefs.max_body end
  return messages.prefs.max_name
end

local read

-- Entries from the one of number `done` on, which stands at `pos`; those of a handshake are checked as they are read.
-- What is behind the last one, or nil and what `read` says; and how far it came.
local function walk(layout, tvb, pos, stop, count, begin, done, list, strict)
  local prefix = strict and layout.list_prefix or ""
  while done < count do
    if pos + #prefix > stop then return nil, MORE, nil, pos, done end
    if raw_at(tvb, pos, #prefix) ~= prefix then return broken(e.bad_list_entry) end
    local entry, need, failure = read(layout, layout.entry, tvb, pos + #prefix, stop)
    if failure then return nil, nil, failure end
    if not entry then return nil, done + 1 == count and need or MORE, nil, pos, done end
    if strict then
      if not is_text(raw_at(tvb, entry.channel_at, entry.channel)) or not is_text(raw_at(tvb, entry.key_at, entry.key)) then
        return broken(e.bad_text_in_list)
      end
      if pos + #prefix + entry.size - begin > messages.prefs.max_handshake then
        return broken(e.too_long, "A handshake over the limit (T-08)")
      end
    end
    entry.at = pos + #prefix
    if list then list[#list + 1] = entry end
    pos = entry.at + entry.size
    done = done + 1
  end
  return pos
end

-- A handshake comes in many pieces, and after each of them it is read again: `progress` is how far that went, for the
-- same head, so that its time does not grow with the square of their number.
local function read_entries(layout, tvb, pos, stop, count, strict, head, progress)
  local begin, list = pos, {}
  if progress and progress.head == head and pos + progress.size <= stop then
    local place = pos + progress.size
    local _, need, _, at, done = walk(layout, tvb, place, stop, count, begin, progress.done, nil, strict)
    if at then
      progress.size, progress.done = at - begin, done
      return nil, need
    end
  end
  local after, need, failure, at, done = walk(layout, tvb, pos, stop, count, begin, 0, list, strict)
  if progress then progress.head, progress.size, progress.done = at and head, at and at - begin, done end
  if after then return list, after end
  return nil, need, failure
end

-- The items from `pos` on: their values, or nil and the bytes that are missing, or what is wrong.
-- A value of bytes is their length. Numbers of eight bytes are UInt64, which alone is exact.
function read(layout, items, tvb, pos, stop, strict, progress)
  local values, start, pending = {}, pos, 0
  for _, item in ipairs(items) do
    local name, width = item.name, item.width
    if name == "entries" then
      local head = progress and tvb:raw(start, pos - start)
      local list, after, failure = read_entries(layout, tvb, pos, stop, values.count_number, strict, head, progress)
      if not list then return nil, after, failure end
      values.entries = list
      pos = after
    elseif item.kind == "bytes" then
      local size = values[name .. "_length_number"]
      if pos + size > stop then return nil, item.tells and MORE or pos + pending + item.rest - stop end
      values[name], values[name .. "_at"] = size, pos
      pending = pending - size
      pos = pos + size
    else
      if pos + width > stop then return nil, item.tells and MORE or pos + pending + item.rest - stop end
      values[name .. "_at"], values[name .. "_width"] = pos, width
      if width <= 4 then
        values[name] = tvb(pos, width):uint()
        values[name .. "_number"] = values[name]
      elseif width == 8 then
        values[name] = tvb(pos, width):uint64()
        values[name .. "_number"] = values[name]:tonumber()
      end
      pos = pos + width
      local part = name:match("^(.*)_length$")
      local number = values[name .. "_number"]
      if part then
        if number > limit_of(part) then
          return broken(e.too_long, ("A %s of %.0f bytes: the limit is %d (T-06, T-07)"):format(part, number, limit_of(part)))
        end
        pending = pending + number
      elseif name == "count" and number > messages.prefs.max_subscriptions then
        if not strict then return nil, nil, {} end
        return broken(e.too_many, ("%.0f subscriptions: the limit is %d (T-08)"):format(number, messages.prefs.max_subscriptions))
      elseif name == "status" and items == layout.response and not layout.statuses[number] then
        return broken(e.unknown_status, ("Status %d has no meaning (T-60)"):format(number))
      end
    end
  end
  values.size = pos - start
  return values
end

-- The frame at `pos`: values and its kind, or nil and the bytes that are missing, or what is wrong.
local function read_frame(layout, tvb, pos, stop, progress)
  local kind = layout.codes[tvb(pos, 1):uint()]
  if not kind then return broken(e.unknown_type, ("No frame begins with the byte %d (T-05)"):format(tvb(pos, 1):uint())) end
  local values, need, failure = read(layout, layout[kind], tvb, pos, stop, true, progress)
  if values and values.instance_at then
    local uuid = uuid_at(tvb, values.instance_at)
    values.uuid = uuid
    if uuid:find("^[0%-]+$") or uuid:find("^[fF%-]+$") then return broken(e.bad_uuid, uuid .. " names nobody (T-03)") end
  end
  if values then values.kind = kind end
  return values, need, failure
end

-- The layout that the preferences have for one of a connection's ports, or for who begins it.
local function layout_of_peer(tvb, pos, size, pinfo)
  for who, name in messages.prefs.layouts:gmatch("([%x%-]+)%s*=%s*([%w_]+)") do
    local port = tonumber(who)
    local meant = port and (port == pinfo.src_port or port == pinfo.dst_port)
    if not port and size >= 25 and tvb(pos, 1):uint() == 0 then meant = who:lower() == uuid_at(tvb, pos + 9) end
    if meant and LAYOUTS[name] then return LAYOUTS[name] end
  end
end

-- The layout of a connection, by its first request, of which 25 bytes are the same in all. nil: more bytes are needed.
local function guess(tvb, pos, stop, pinfo, over_tls)
  local size = stop - pos
  local layout = layout_of_peer(tvb, pos, size, pinfo)
  if layout then return layout end
  local chosen = NAMES[messages.prefs.layout]
  if chosen then return LAYOUTS[chosen] end
  if tvb(pos, 1):uint() ~= 0 then return LAYOUTS.DRAFT_2 end
  if size < 25 then return nil end
  if size == 25 then
    if over_tls then return nil end
    return LAYOUTS.RUST_2026 -- which has no list, and no TLS
  end
  if size < 29 then return nil end
  if tvb(pos + 25, 4):uint() > 0 or size == 29 then return LAYOUTS.DRAFT_2 end
  if size < 33 then return nil end
  local entries = tvb(pos + 29, 4):uint() > 0
  if entries or size == 33 then return LAYOUTS.GO_2026 end
  return LAYOUTS.DRAFT_2
end

local function control_of(layout, tvb, values)
  local body = raw_at(tvb, values.body_at, values.body)
  local stop = values.body_at + values.body
  for _, form in ipairs(layout.controls) do
    if body:sub(1, #form.prefix) == form.prefix then
      local found = read(layout, form.items, tvb, values.body_at + #form.prefix, stop)
      if found and found.size + #form.prefix == values.body then
        local at = values.body_at + #form.prefix
        local list = found.entries
        if not list then
          found.at = at
          list = { found }
        end
        for _, entry in ipairs(list) do
          if not is_text(raw_at(tvb, entry.channel_at, entry.channel)) or not is_text(raw_at(tvb, entry.key_at, entry.key)) then
            return nil
          end
        end
        return form.name, list, found
      end
    end
  end
  return nil
end

-- What a frame means for its connection. Called once for each, in the order of the capture.

local follow = {}

function follow.request(conn, side, values, memo, tvb)
  if conn.client and (conn.client ~= side or conn.live) then
    note(memo, e.again)
    if side.uuid and (side.uuid ~= values.uuid or side.version ~= values.version) then note(memo, e.changed) end
  elseif not conn.client then
    conn.client = side
    conn.whole = side.frames == 1 and (not side.other or side.other.frames == 0)
  end
  side.uuid, side.version = side.uuid or values.uuid, side.version or values.version
  conn.requested = memo
  memo.handshake = {}
  conn.handshake = memo.handshake
  memo.handshake.request = memo.number
end

function follow.response(conn, side, values, memo)
  side.uuid, side.version = side.uuid or values.uuid, side.version or values.version
  local due = conn.handshake and not conn.handshake.response and (conn.client ~= side or conn.live)
  if due then
    conn.handshake.response = memo.number
    memo.handshake = conn.handshake
  elseif conn.whole then
    note(memo, e.unexpected)
    return
  end
  local meaning = conn.layout.statuses[values.status]
  local client = conn.client and conn.client.version
  if client and conn.whole and not conn.live then
    local server = values.version
    local right = meaning == "failed"
      or meaning == "same_version" and client == server
      or meaning == "older" and server < client
      or (meaning == "newer_compatible" or meaning == "newer_incompatible") and client < server
    if not right then note(memo, e.contradiction) end
  end
  if meaning == "newer_incompatible" or meaning == "failed" then
    conn.refused = true
    note(memo, e.refused)
  elseif meaning == "older" or conn.layout.final_always then
    conn.final_from = side.other
  else
    conn.live = true
  end
end

function follow.final(conn, side, values, memo)
  if conn.whole and conn.final_from ~= side then
    note(memo, e.unexpected)
    return
  end
  local compatible = conn.layout.finals[values.final]
  conn.final_from = nil
  conn.live, conn.refused = compatible, not compatible
  if compatible == nil then note(memo, e.odd_final) end
  if not compatible then note(memo, e.refused) end
end

local function in_its_place(conn, memo)
  if conn.whole and not conn.live and not conn.refused then note(memo, e.too_early) end
end

function follow.message(conn, side, values, memo)
  in_its_place(conn, memo)
  if not values.reliable then return end
  local before = side.sent[values.id_text]
  if before and not before.acked then
    memo.copy_of = before.number
    note(memo, e.copy)
  end
  memo.message = { number = memo.number, time = memo.time }
  side.sent[values.id_text] = memo.message
end

function follow.ack(conn, side, values, memo)
  in_its_place(conn, memo)
  if values.status and conn.layout.acks[values.status] ~= "handled" then note(memo, e.not_delivered) end
  if values.id_text == conn.layout.unreliable then
    note(memo, e.unreliable_ack)
    return
  end
  local message = side.other and side.other.sent[values.id_text]
  if not message then
    if conn.whole then note(memo, e.stray_ack) end
    return
  end
  if message.acked then note(memo, e.second_ack) end
  message.acked = message.acked or memo.number
  message.seconds = message.seconds or memo.time - message.time
  memo.acks = message
end

-- Showing of messages' frames.

local function add_entry(item, tvb, entry, memo)
  local tree = item:add(f.entry, tvb(entry.at, entry.size))
  local channel = raw_at(tvb, entry.channel_at, entry.channel)
  local key = raw_at(tvb, entry.key_at, entry.key)
  tree:set_text(("Subscription: %q %q"):format(shown(channel), shown(key)))
  tree:add(f.entry_channel_length, tvb(entry.channel_length_at, entry.channel_length_width))
  tree:add(f.entry_key_length, tvb(entry.key_length_at, entry.key_length_width))
  add_text(tree, f.entry_channel, tvb, entry.channel_at, entry.channel)
  add_text(tree, f.entry_key, tvb, entry.key_at, entry.key)
  if channel == "tolliver" then complain(tree, e.reserved) end
  return channel, key
end

local show = {}

local function add_handshake(item, tvb, values)
  item:add(f.version, tvb(values.version_at, 8))
  local instance = item:add(f.instance, tvb(values.instance_at, 16))
  if tvb(values.instance_at + 6, 1):uint() < 0x70 or tvb(values.instance_at + 6, 1):uint() > 0x7f then
    complain(instance, e.not_version_7)
  end
  return ("%s version %s"):format(values.uuid, tostring(values.version))
end

local function add_list(item, tvb, values)
  if not values.entries then return "" end
  item:add(f.count, tvb(values.count_at, values.count_width))
  for _, entry in ipairs(values.entries) do add_entry(item, tvb, entry) end
  return (", %d subscription%s"):format(#values.entries, #values.entries == 1 and "" or "s")
end

function show.request(item, tvb, values, memo)
  local info = add_handshake(item, tvb, values)
  local answer = memo.handshake and memo.handshake.response
  if answer then item:add(f.response_in, answer):set_generated() end
  return info .. add_list(item, tvb, values)
end

function show.response(item, tvb, values, memo, layout)
  local info = add_handshake(item, tvb, values)
  local meaning = layout.statuses[values.status]
  item:add(f.status, tvb(values.status_at, 1)):append_text((" (%s)"):format(meaning))
  item:add(f.meaning, meaning):set_generated()
  local asked = memo.handshake and memo.handshake.request
  if asked then item:add(f.request_in, asked):set_generated() end
  return ("%s, %s%s"):format(info, meaning, add_list(item, tvb, values))
end

function show.final(item, tvb, values, memo, layout)
  local meaning = layout.finals[values.final] and "compatible" or "failure"
  item:add(f.final, tvb(values.final_at, 1)):append_text((" (%s)"):format(meaning))
  item:add(f.meaning, meaning):set_generated()
  return meaning
end

function show.message(item, tvb, values, memo, layout)
  for _, name in ipairs({ "channel_length", "key_length", "body_length" }) do
    item:add(f[name], tvb(values[name .. "_at"], values[name .. "_width"]))
  end
  item:add(f.id, tvb(values.id_at, values.id_width))
  item:add(f.reliable, values.reliable):set_generated()
  add_text(item, f.channel, tvb, values.channel_at, values.channel)
  add_text(item, f.key, tvb, values.key_at, values.key)
  item:add(f.body, tvb(values.body_at, values.body))
  local channel, key = raw_at(tvb, values.channel_at, values.channel), raw_at(tvb, values.key_at, values.key)
  local info
  local function ignored(reason, about)
    item:add(f.ignored, reason):set_generated()
    complain(item, about)
    info = "not understood: " .. reason
  end
  if channel == "tolliver" then
    local name, list, found = control_of(layout, tvb, values)
    if key ~= "" then
      ignored("control_key", e.control_key)
    elseif not name then
      ignored("bad_control", e.bad_control)
      if layout ~= LAYOUTS.DRAFT_1 and control_of(LAYOUTS.DRAFT_1, tvb, values) then
        complain(item, e.draft_1_control)
      end
    else
      item:add(f.control, name):set_generated()
      if found.count_at then item:add(f.count, tvb(found.count_at, found.count_width)) end
      local names = {}
      for _, entry in ipairs(list) do
        local one, other = add_entry(item, tvb, entry)
        names[#names + 1] = ("%s %s"):format(shown(one), shown(other))
      end
      info = ("%s %s"):format(name, table.concat(names, ", "))
      if not values.reliable then complain(item, e.control_without_id) end
    end
  elseif not is_text(channel) or not is_text(key) then
    ignored("bad_text", e.bad_text)
  else
    info = ("%s %s"):format(shown(channel), shown(key))
  end
  if memo.copy_of then item:add(f.copy_of, memo.copy_of):set_generated() end
  local message = memo.message
  if message and message.acked then
    item:add(f.ack_in, message.acked):set_generated()
    item:add(f.ack_time, message.seconds):set_generated()
  end
  local id = values.reliable and "id " .. values.id_text or "unreliable"
  return ("%s (%s, %d bytes)"):format(info, id, values.body)
end

function show.ack(item, tvb, values, memo, layout)
  local meaning = "handled"
  if values.status then
    meaning = layout.acks[values.status] or "refused"
    item:add(f.status, tvb(values.status_at, 1)):append_text((" (%s)"):format(meaning))
    item:add(f.meaning, meaning):set_generated()
  end
  item:add(f.id, tvb(values.id_at, values.id_width))
  if memo.acks then
    item:add(f.ack_of, memo.acks.number):set_generated()
    item:add(f.ack_time, memo.acks.seconds):set_generated()
  end
  return meaning == "handled" and "id " .. values.id_text or ("id %s, refused"):format(values.id_text)
end

local function add_ends(item, conn, side)
  local sender, receiver = side.uuid, side.other and side.other.uuid
  if sender then
    item:add(f.sender, sender):set_generated()
    item:add(f.peer, sender):set_generated()
  end
  if receiver then
    item:add(f.receiver, receiver):set_generated()
    item:add(f.peer, receiver):set_generated()
  end
end

-- Frames in one piece of the stream, common to both protocols.

local function say(pinfo, title, number, text)
  if number == 1 then
    pinfo.cols.protocol:set(title)
    pinfo.cols.info:set(text)
  elseif number <= IN_INFO then
    pinfo.cols.info:append("; " .. text)
  elseif number == IN_INFO + 1 then
    pinfo.cols.info:append("; ...")
  end
end

-- `one` dissects the frame at a place: what it returns is the size, or nil and the bytes that are missing, or a failure.
local function dissect_all(kind, proto, fields, experts, title, tvb, pinfo, tree, one)
  local conn = connection(pinfo, kind)
  local side = side_of(conn, pinfo)
  local stop, pos = tvb:captured_len(), 0
  conn.taken = true
  if stop == 0 then return 0 end
  while pos < stop do
    local memo, fresh = peek(pinfo, kind)
    if fresh then memo.number, memo.time, memo.dead, memo.lost = pinfo.number, pinfo.rel_ts, side.dead, side.lost end
    local size, need, failure
    if not memo.dead then size, need, failure = one(conn, side, tvb, pinfo, tree, pos, stop, memo, fresh) end
    local number = cursor[kind].index + 1
    if size then
      keep(pinfo, kind, memo, fresh)
      if fresh then side.lost = nil end
      pos = pos + size
    elseif need and pinfo.can_desegment > 0 and stop == tvb:reported_len() then
      keep_partial(pinfo, kind, memo, fresh)
      pinfo.desegment_offset = pos
      pinfo.desegment_len = (need == MORE or need < MOST_AT_ONCE) and need or MOST_AT_ONCE
      return tvb:len()
    else
      -- Nobody can say where the next frame begins: all that follows in this direction is left unread. But where the
      -- capture has not all of a packet, a frame may begin with the next one.
      if fresh then
        if memo.dead or memo.lost then
          note(memo, experts.behind)
        elseif failure then
          note(memo, failure.about, failure.text)
          side.dead = true
        else
          note(memo, experts.cut)
          side.lost = true
        end
        memo.dead = true
      end
      keep(pinfo, kind, memo, fresh)
      local item = tree:add(proto, tvb(pos, stop - pos))
      item:append_text(", not read")
      item:add(fields.unread, tvb(pos, stop - pos))
      show_notes(item, memo)
      say(pinfo, title, number, "not read")
      return tvb:len()
    end
  end
  return tvb:len()
end

local function one_message(conn, side, tvb, pinfo, tree, pos, stop, memo, fresh)
  if not conn.layout then
    conn.layout = guess(tvb, pos, stop, pinfo, conn.over_tls)
    if not conn.layout then return nil, MORE end
  end
  local layout = conn.layout
  local values, need, failure = read_frame(layout, tvb, pos, stop, side.progress)
  if not values then return nil, need, failure end
  local kind = values.kind
  if values.id then
    values.id_text = type(values.id) == "number" and ("%.0f"):format(values.id) or tostring(values.id)
    values.reliable = layout.ack ~= nil and values.id_text ~= layout.unreliable
  end
  if fresh then
    side.frames = side.frames + 1
    follow[kind](conn, side, values, memo, tvb)
  end
  local item = tree:add(messages, tvb(pos, values.size))
  item:add(f.type, kind):set_generated()
  item:add(f.code, tvb(pos, 1)):append_text((" (%s)"):format(kind))
  local text = ("%s %s"):format(kind, show[kind](item, tvb, values, memo, layout))
  item:add(f.layout, layout.name):set_generated()
  add_ends(item, conn, side)
  item:append_text(", " .. text)
  show_notes(item, memo)
  say(pinfo, "Tolliver", cursor.messages.index + 1, text)
  return values.size
end

-- Numbers of Reactive Streams.

-- The varint at `pos`: number (exact to 2^53), what is behind it, UInt64's two halves; or nil and what is missing, or
-- a failure.
local function varint(tvb, pos, stop)
  local parts, at = { 0, 0, 0 }, pos
  for i = 0, 9 do
    if at >= stop then return nil, MORE end
    local byte = tvb(at, 1):uint()
    at = at + 1
    local group = byte % 128
    if i == 9 and byte > 1 then return broken(r.long_varint) end
    local part = math.floor(i / 4) + 1
    parts[part] = parts[part] + group * 128 ^ (i % 4)
    if byte < 128 then
      local low = parts[1] + (parts[2] % 16) * 2 ^ 28
      local high = math.floor(parts[2] / 16) + parts[3] * 2 ^ 24
      return low + high * 2 ^ 32, at, low, high, i > 0 and byte == 0
    end
  end
  return broken(r.long_varint)
end

local function exact(low, high)
  return UInt64.new(low, high)
end

local function signed(low, high)
  return Int64.new(low, high)
end

-- As a number with a sign, for sums.
local function as_long(low, high)
  if high >= 2 ^ 31 then high = high - 2 ^ 32 end
  return low + high * 2 ^ 32
end

-- One frame of Reactive Streams into a list of parts to be shown: { field, at, size, how, ... }.
local function read_stream_frame(tvb, pos, stop, size_of)
  local start = pos
  local found = { parts = {}, notes = {} }
  local function number()
    local value, after, low, high, padded = varint(tvb, pos, stop)
    if not value then return nil, after, low end
    if padded then found.notes[#found.notes + 1] = { r.padded } end
    local at = pos
    pos = after
    return value, at, low, high
  end
  local function part(field, at, how, value) table.insert(found.parts, { field, at, pos - at, how, value }) end

  local code, at, low, high = number()
  if not code then return nil, at, low end
  local form = STREAM_FRAMES[code]
  if not form then return broken(r.unknown_type, ("No frame has the type number %.0f (R-07)"):format(code)) end
  part(s.code, at, "number", exact(low, high))
  found.kind = form[1]
  local element_size = 0
  for i = 2, #form do
    local name, fixed = form[i], form[i] == "element" and element_size > 0
    local value
    if fixed then -- there is no length
      value, at = element_size, pos
    else
      value, at, low, high = number()
      if not value then return nil, at, low end
    end
    local behind = pos
    if name == "version" then
      part(s.version, at, "number", exact(low, high))
      found.version = value
    elseif name == "own_id" or name == "stream_id" then
      part(s.id, at, "number", exact(low, high))
      found.id, found.whose = tostring(exact(low, high)), name
      if name == "stream_id" then element_size = size_of(found.id) end
    elseif name == "initial_demand" or name == "count" then
      part(s[name], at, "number", signed(low, high))
      found.demand = as_long(low, high)
    elseif name == "element_size" then
      if value > MAX_ELEMENT then return broken(r.too_long, ("An element size of %.0f (R-20)"):format(value)) end
      part(s.element_size, at, "number", exact(low, high))
      found.element_size = value
    elseif name == "extensions" then
      if value > MAX_EXTENSIONS then return broken(r.too_many, ("%.0f extensions (R-27)"):format(value)) end
      part(s.count_of, at, "number", exact(low, high))
      found.extensions = value
      for _ = 1, value do
        local _, place, one, other = number()
        if not _ then return nil, place, one end
        part(s.extension, place, "number", exact(one, other))
      end
    elseif name == "name" or name == "text" then
      local most = name == "name" and messages.prefs.max_name or MAX_TEXT
      if value > most then return broken(r.too_long, ("%.0f bytes of text: the limit is %d (R-34)"):format(value, most)) end
      if pos + value > stop then return nil, name == "text" and pos + value - stop or MORE end
      if not is_text(raw_at(tvb, pos, value)) then return broken(r.bad_text) end
      part(s.length, at, "number", exact(low, high))
      pos = pos + value
      part(s[name], behind, "text")
      found[name] = raw_at(tvb, behind, value)
    elseif name == "element" then
      if not fixed then
        if value > MAX_ELEMENT then return broken(r.too_long, ("An element of %.0f bytes (R-33)"):format(value)) end
        part(s.length, at, "number", exact(low, high))
      end
      if pos + value > stop then return nil, pos + value - stop end
      pos = pos + value
      part(s.element, behind, "bytes")
      found.elements = 1
    elseif name == "elements" then
      if element_size == 0 then return broken(r.not_packable) end
      if value * element_size > MAX_PACKED then
        return broken(r.too_long, ("%.0f x %.0f bytes packed (R-23)"):format(value, element_size))
      end
      if pos + value * element_size > stop then return nil, pos + value * element_size - stop end
      part(s.packed, at, "number", exact(low, high))
      found.elements = value
      for _ = 1, value do
        behind = pos
        pos = pos + element_size
        part(s.element, behind, "bytes")
      end
    end
  end
  found.size = pos - start
  return found
end

-- What a frame means for its stream. Called once for each, in the order of the capture.
local function follow_stream(conn, side, found, memo)
  side.frames = side.frames + 1
  local kind = found.kind
  local hello = kind == "clientHello" or kind == "serverHello"
  if hello then
    if side.hello or side.frames > 1 then
      note(memo, r.unexpected)
    elseif kind == "clientHello" then
      conn.whole = not side.other or side.other.frames == 0
      if side.other and side.other.hello == kind then note(memo, r.unexpected) end
    end
    side.hello = kind
    if found.version ~= 0 then note(memo, r.version, ("Version %.0f (R-26)"):format(found.version)) end
  elseif side.frames == 1 and conn.whole and kind ~= "goodbye" then
    note(memo, r.unexpected)
  end
  if side.goodbye then note(memo, r.after_goodbye) end
  if kind == "goodbye" then side.goodbye = true end
  if not found.id then return end

  local owner = found.whose == "own_id" and side or side.other
  local ids = owner and owner.subscribed or {}
  local stream = ids[found.id]
  if kind == "subscribe" then
    if stream and stream.active then note(memo, r.duplicate_id) end
    -- Of an id that is used again, signals of the earlier subscription may come until all answers have (R-10).
    local due = (stream and stream.due or 0) + 1
    stream = { name = found.name, demand = found.demand, active = true, due = due, again = stream ~= nil, size = stream and stream.size or 0 }
    stream.link = { subscribe = memo.number }
    ids[found.id] = stream
    if found.demand < 0 then note(memo, r.no_demand) end
  elseif kind == "request" or kind == "cancel" then
    if not stream or not stream.active then
      if conn.whole then note(memo, r.over) end
    elseif kind == "cancel" then
      stream.active = false
    elseif found.demand < 1 then
      note(memo, r.no_demand)
    else
      stream.demand = stream.demand + found.demand
    end
  elseif not stream then
    if conn.whole then note(memo, r.unknown_id) end
    if kind == "subscribed" and owner then
      ids[found.id] = { size = found.element_size, due = 0, demand = math.huge, link = {} }
    end
  elseif kind == "subscribed" then
    if stream.due == 0 then
      if conn.whole then note(memo, r.not_subscribed) end
    else
      stream.due = stream.due - 1
    end
    stream.size = found.element_size
    if stream.due == 0 then stream.link.subscribed = stream.link.subscribed or memo.number end
  elseif stream.due > 0 then
    if conn.whole and not stream.again then note(memo, r.not_subscribed) end
  else
    if found.elements then
      if found.elements == 0 then note(memo, r.empty) end
      stream.demand = stream.demand - found.elements
      if stream.active and stream.demand < 0 then note(memo, r.overflow) end
    else
      stream.active = false
    end
  end
  if stream then
    memo.stream, memo.link = stream.name, stream.link
  end
end

local function one_stream_frame(conn, side, tvb, pinfo, tree, pos, stop, memo, fresh)
  local function size_of(id)
    if fresh then
      local stream = side.other and side.other.subscribed[id]
      memo.element_size = stream and stream.size or 0
    end
    return memo.element_size or 0
  end
  local found, need, failure = read_stream_frame(tvb, pos, stop, size_of)
  if not found then return nil, need, failure end
  if fresh then
    for _, one in ipairs(found.notes) do note(memo, one[1]) end
    follow_stream(conn, side, found, memo)
  end
  local item = tree:add(streams, tvb(pos, found.size))
  item:add(s.type, found.kind):set_generated()
  for _, one in ipairs(found.parts) do
    local field, at, size, how, value = one[1], one[2], one[3], one[4], one[5]
    if how == "number" then
      item:add(field, tvb(at, size), value)
    elseif how == "text" then
      add_text(item, field, tvb, at, size)
    else
      item:add(field, tvb(at, size))
    end
  end
  local text = found.kind
  if found.id then text = ("%s id %s"):format(text, found.id) end
  if found.name then text = ("%s %s"):format(text, shown(found.name)) end
  if found.text then text = ("%s %s"):format(text, shown(found.text)) end
  if found.demand then text = ("%s, demand %.0f"):format(text, found.demand) end
  if found.elements and found.kind == "onNextPacked" then text = ("%s, %d elements"):format(text, found.elements) end
  if memo.stream then
    item:add(s.stream, memo.stream):set_generated()
    if found.kind ~= "subscribe" then text = ("%s (%s)"):format(text, shown(memo.stream)) end
  end
  local link = memo.link or {}
  if found.kind == "subscribe" and link.subscribed then item:add(s.subscribed_in, link.subscribed):set_generated() end
  if found.kind ~= "subscribe" and link.subscribe then item:add(s.subscribe_in, link.subscribe):set_generated() end
  item:append_text(", " .. text)
  show_notes(item, memo)
  say(pinfo, "Tolliver RS", cursor.streams.index + 1, text)
  return found.size
end

-- Where a connection is ours.

local function dissect_messages(tvb, pinfo, tree)
  return dissect_all("messages", messages, f, e, "Tolliver", tvb, pinfo, tree, one_message)
end

local function dissect_streams(tvb, pinfo, tree)
  return dissect_all("streams", streams, s, r, "Tolliver RS", tvb, pinfo, tree, one_stream_frame)
end

local function on_port(ports, pinfo)
  local list = "," .. tostring(ports) .. ","
  for first, last in list:gmatch("(%d+)%-?(%d*)") do
    first = tonumber(first)
    last = tonumber(last) or first
    if first <= pinfo.src_port and pinfo.src_port <= last or first <= pinfo.dst_port and pinfo.dst_port <= last then
      return true
    end
  end
  return false
end

-- Frames of messages as far as there are any: none of them wrong.
local function plausible_messages(tvb, pinfo)
  local stop, pos = tvb:captured_len(), 0
  if stop == 0 then return false end
  local layout = guess(tvb, 0, stop, pinfo)
  for _ = 1, 8 do
    if pos >= stop then break end
    if not layout then return tvb(0, 1):uint() == 0 end
    local values, _, failure = read_frame(layout, tvb, pos, stop)
    if failure then return false end
    if not values then break end
    pos = pos + values.size
  end
  return true
end

-- A request that can hardly be anything else: a small version, a UUID of the usual variant.
local function certain_request(tvb, pinfo)
  if tvb:captured_len() < 25 or tvb(0, 1):uint() ~= 0 or tvb(1, 4):uint() ~= 0 or tvb(5, 2):uint() ~= 0 then return false end
  local version, variant = tvb(15, 1):uint(), tvb(17, 1):uint()
  return version >= 0x10 and version < 0x90 and variant >= 0x80 and variant < 0xc0 and plausible_messages(tvb, pinfo)
end

-- Frames of streams from a hello on, with a subscribe behind it where the port says nothing.
local function plausible_streams(tvb, _, certain)
  local stop, pos, subscribes = tvb:captured_len(), 0, 0
  for number = 1, 8 do
    if pos >= stop then break end
    local found, _, failure = read_stream_frame(tvb, pos, stop, function() return 0 end)
    if failure then return false end
    if not found then return not certain end
    if certain and number == 1 and (found.kind ~= "clientHello" or found.version ~= 0) then return false end
    if found.kind == "subscribe" and #found.name > 0 and not found.name:find("%c") then subscribes = subscribes + 1 end
    pos = pos + found.size
  end
  return stop > 0 and (not certain or subscribes > 0 and pos == stop)
end

-- By Decode As, or on our port, where TLS may be spoken as well: then it is not ours.
local function on_tcp(kind, proto, dissect, plausible)
  return function(tvb, pinfo, tree)
    if not connection(pinfo, kind).taken and on_port(proto.prefs.ports, pinfo) and not plausible(tvb, pinfo) then return 0 end
    return dissect(tvb, pinfo, tree)
  end
end

-- By ALPN.
local function on_tls(kind, dissect)
  return function(tvb, pinfo, tree)
    connection(pinfo, kind).over_tls = true
    return dissect(tvb, pinfo, tree)
  end
end

local function heuristic(kind, proto, dissect, certain, plausible, over_tls)
  return function(tvb, pinfo, tree)
    local conn = connection(pinfo, kind)
    if not conn.taken then
      if not (on_port(proto.prefs.ports, pinfo) and plausible(tvb, pinfo) or certain(tvb, pinfo)) then return false end
    end
    conn.over_tls = over_tls
    if not over_tls then pinfo.conversation = proto end
    dissect(tvb, pinfo, tree)
    return true
  end
end

local function certain_streams(tvb, pinfo) return plausible_streams(tvb, pinfo, true) end

messages.dissector = on_tcp("messages", messages, dissect_messages, plausible_messages)
streams.dissector = on_tcp("streams", streams, dissect_streams, plausible_streams)

-- Of their own, as nothing else tells a dissector that it was found by ALPN.
local tls_messages = Proto("tolliver_tls", "Tolliver over TLS")
local tls_streams = Proto("tolliver_rs_tls", "Reactive Streams over TLS")
tls_messages.dissector = on_tls("messages", dissect_messages)
tls_streams.dissector = on_tls("streams", dissect_streams)
DissectorTable.get("tls.alpn"):add("tolliver/1", tls_messages)
DissectorTable.get("tls.alpn"):add("tolliver-rs/0", tls_streams)

for _, below in ipairs({ "tcp", "tls" }) do
  local over_tls = below == "tls"
  messages:register_heuristic(
    below, heuristic("messages", messages, dissect_messages, certain_request, plausible_messages, over_tls)
  )
  streams:register_heuristic(
    below, heuristic("streams", streams, dissect_streams, certain_streams, plausible_streams, over_tls)
  )
end

DissectorTable.get("tcp.port"):add(PORT, messages)
DissectorTable.get("tcp.port"):add(STREAM_PORT, streams)
