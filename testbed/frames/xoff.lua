-- Wireshark's view of Xoff's private formats. SPDX-License-Identifier: Apache-2.0
--
--   headroom measurement frames        testbed/frames/headroom.py has the layout
--   headroom capability in LLDP        an octet more in the PFC TLV of DCBX, testbed/subjects/dcbx/features/pfc.py
--   slice option of IPv6               testbed/frames/ipv6.py
--   datagrams of UDP flows             testbed/net/traffic/udp.py; without this Wireshark guesses at protocols
--   telemetry in RoCEv2 packets        testbed/frames/telemetry.py; Wireshark gets the packet without it
--   selective acknowledgement of RoCE  testbed/frames/roce.py, an opcode of those for manufacturers
--   ESUN's header, provisional         testbed/subjects/link/esun/header.py
--   what a line with LLR carried       testbed/subjects/link/llr/record.py, the shim of captures of lines
--   credits, provisional               testbed/frames/link/credits.py: CF_Update and CC_Update
--   rests of trimmed packets           testbed/switch/trimming/cut.py; RoCE's last four octets are payload then
--
-- Everything else that Xoff sends is dissected by Wireshark itself. For Wireshark 3.4 and later, with Lua 5.1 to 5.4.
-- Preferences (Protocols > XOFF): the opcode of measurement frames and their key, and the DSCP of rests, as in Xoff's
-- configuration.

set_plugin_info({ version = "1", author = "Xoff", description = "Headroom measurement and capability, slices" })

local xoff = Proto("xoff", "Xoff headroom measurement")
local extras = Proto("xoff_extra", "Xoff capabilities and slices")

-- Tables by tools/dissector_tables.py
local OPCODE, EXTENSION = 0xFFFE, 0x02584F
local VERSION, LENGTH, TAGGED = 1, 60, 52
local KINDS = { [1] = "request", [2] = "response" }
-- The fields of a measurement frame, from its opcode on, and of a stamp: name, first octet, octets.
local MEASUREMENT = {
	{ "extension", 2, 3 }, { "version", 5, 1 }, { "kind", 6, 1 }, { "reserved", 7, 1 },
	{ "sequence", 8, 2 }, { "session", 10, 4 }, { "t1", 14, 8 }, { "t2", 22, 8 },
	{ "t3", 30, 8 } }
local STAMP = {
	{ "time", 0, 4 }, { "queue", 4, 4 }, { "sent", 8, 4 }, { "rate", 12, 4 } }
local HEAD_OCTETS, STAMP_OCTETS = 4, 16
local INT_KINDS = { [1] = "collects", [2] = "returned" }
local ROCE_PORT, BTH_OCTETS, ICRC_OCTETS = 4791, 12, 4
local SELECTIVE = 0xD1
local REST_DSCP, DATA = 48, { [0] = true, [1] = true, [2] = true, [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [9] = true, [10] = true, [11] = true, [12] = true, [13] = true, [14] = true, [15] = true, [16] = true, [18] = true, [19] = true, [20] = true, [22] = true, [23] = true, [32] = true, [33] = true, [34] = true, [35] = true, [36] = true, [37] = true, [38] = true, [39] = true, [40] = true, [41] = true, [42] = true, [43] = true, [100] = true, [101] = true }
local ESUN_TYPE, ESUN_OCTETS = 0x88B6, 4
local ESUN = {
	{ "ecn", 0, 2 }, { "cos", 2, 3 }, { "flow_bit", 5, 1 }, { "flow_label", 6, 16 },
	{ "ttl", 22, 4 }, { "user", 26, 4 }, { "revision", 30, 2 } }
local LLR_TYPE, LLR_OCTETS, LLR_REPLAY, LLR_PLAIN = 0x88B5, 12, 1, 2
local LLR = { { "version", 0, 1 }, { "kind", 1, 1 }, { "fate", 2, 1 }, { "flags", 3, 1 }, { "line", 4, 8 } }
local LLR_KINDS = { [1] = "frame", [2] = "ordered set" }
local LLR_FATES = { [0] = "came", [1] = "lost", [2] = "damaged", [3] = "poisoned" }
local LLR_SETS = { [1] = "LLR_ACK", [2] = "LLR_NACK", [3] = "LLR_INIT", [4] = "LLR_INIT_ECHO" }
local CREDITS, CARRIED = 0xFA7ACB, 0x025843
local COUNTERS, FREED_BITS, USED_BITS = 16, 15, 20
local FLOW_PORTS = "20000-20999"
local CAPABLE, SLICE, SLICE_OCTETS = 0xA1, 0x1E, 8
local OUI = 0x0080C2
-- A field is its name, its first bit, its bits, and what 0 means.
local ENTRY = { octets = 3, { "priority", 0, 3 }, { "selector", 5, 3 }, { "protocol", 8, 16 } }
local DRAFT = {
	[8] = { name = "Traffic Classes", octets = 1,
		{ "classes", 5, 3, 8 } },
	[9] = { name = "ETS Configuration", octets = 13,
		{ "willing", 7, 1 }, { "assignment", 8, 4 }, { "assignment", 12, 4 }, { "assignment", 16, 4 },
		{ "assignment", 20, 4 }, { "assignment", 24, 4 }, { "assignment", 28, 4 }, { "assignment", 32, 4 },
		{ "assignment", 36, 4 }, { "bandwidth", 40, 8 }, { "bandwidth", 48, 8 }, { "bandwidth", 56, 8 },
		{ "bandwidth", 64, 8 }, { "bandwidth", 72, 8 }, { "bandwidth", 80, 8 }, { "bandwidth", 88, 8 },
		{ "bandwidth", 96, 8 } },
	[10] = { name = "ETS Recommendation", octets = 9,
		{ "valid", 7, 1 }, { "bandwidth", 8, 8 }, { "bandwidth", 16, 8 }, { "bandwidth", 24, 8 },
		{ "bandwidth", 32, 8 }, { "bandwidth", 40, 8 }, { "bandwidth", 48, 8 }, { "bandwidth", 56, 8 },
		{ "bandwidth", 64, 8 } },
	[11] = { name = "PFC", octets = 2, extra = "defended",
		{ "willing", 0, 1 }, { "cap", 5, 3, 8 }, { "enabled", 8, 8 } },
	[12] = { name = "Application Priority", octets = 1, entries = true,
		{ "willing", 0, 1 } },
	[13] = { name = "Congestion Notification", octets = 3,
		{ "willing", 0, 1 }, { "enabled", 8, 8 }, { "defended", 16, 8 } },
}
-- End of tables

xoff.prefs.opcode = Pref.uint("Opcode", OPCODE, "MAC control opcode of measurement frames")
xoff.prefs.rests = Pref.uint("DSCP of rests", REST_DSCP, "The DSCP that switches give to packets that they trim")
xoff.prefs.key = Pref.string("Key", "", "Key of measurement frames, in hexadecimal digits; empty: none")

local f = xoff.fields
f.opcode = ProtoField.uint16("xoff.opcode", "Opcode", base.HEX)
f.extension = ProtoField.uint24("xoff.extension", "Extension", base.HEX)
f.version = ProtoField.uint8("xoff.version", "Version")
f.kind = ProtoField.uint8("xoff.kind", "Kind", base.DEC, KINDS)
f.reserved = ProtoField.uint8("xoff.reserved", "Reserved")
f.sequence = ProtoField.uint16("xoff.sequence", "Sequence")
f.session = ProtoField.uint32("xoff.session", "Session", base.HEX)
f.t1 = ProtoField.uint64("xoff.t1", "T1 (ns, clock of the asking station)")
f.t2 = ProtoField.uint64("xoff.t2", "T2 (ns, clock of the answering station)")
f.t3 = ProtoField.uint64("xoff.t3", "T3 (ns, clock of the answering station)")
f.held = ProtoField.int64("xoff.held", "T3 - T2 (ns)")
f.tag = ProtoField.bytes("xoff.tag", "Tag")
f.tag_good = ProtoField.bool("xoff.tag.good", "Tag is right")

local wrong_tag = ProtoExpert.new(
	"xoff.tag.wrong", "The tag is wrong: another key, damaged or forged", expert.group.CHECKSUM, expert.severity.WARN)
local unknown = ProtoExpert.new(
	"xoff.unknown", "Version or kind is not known", expert.group.PROTOCOL, expert.severity.WARN)
local malformed = ProtoExpert.new(
	"xoff.malformed", "Malformed packet", expert.group.MALFORMED, expert.severity.ERROR)
xoff.experts = { wrong_tag, unknown, malformed }

local g = extras.fields
g.capability = ProtoField.uint8("xoff.capability", "Headroom capability octet", base.HEX)
g.capable = ProtoField.bool("xoff.capable", "Measures headroom")
g.slice = ProtoField.uint32("xoff.slice", "Slice")
g.strict = ProtoField.bool("xoff.slice.strict", "Routers without this slice drop")

local d, names = {}, {}
for subtype, layout in pairs(DRAFT) do names[subtype] = layout.name end
d.subtype = ProtoField.uint8("xoff.draft.subtype", "Subtype", base.DEC, names)
d.classes = ProtoField.uint8("xoff.draft.classes", "Traffic classes")
d.willing = ProtoField.bool("xoff.draft.willing", "Willing")
d.valid = ProtoField.bool("xoff.draft.valid", "Recommendation is valid")
d.assignment = ProtoField.uint8("xoff.draft.assignment", "Class of a priority")
d.bandwidth = ProtoField.uint8("xoff.draft.bandwidth", "Percent")
d.cap = ProtoField.uint8("xoff.draft.cap", "PFC capability")
d.enabled = ProtoField.uint8("xoff.draft.enabled", "Enabled", base.HEX)
d.defended = ProtoField.uint8("xoff.draft.defended", "DefOn", base.HEX)
d.entry = ProtoField.bytes("xoff.draft.entry", "Application")
d.priority = ProtoField.uint8("xoff.draft.priority", "Priority")
d.selector = ProtoField.uint8("xoff.draft.selector", "Selector")
d.protocol = ProtoField.uint16("xoff.draft.protocol", "Protocol", base.HEX)
for name, field in pairs(d) do g["draft_" .. name] = field end

-- BLAKE2s (RFC 7693), for tags of 8 octets. Numbers stay below 2^35, which every Lua has exactly.

local WORD = 4294967296
local xor, ror
local bits = rawget(_G, "bit32") or rawget(_G, "bit")
if bits then
	local turn = bits.rrotate or bits.ror
	xor = function(a, b) return bits.bxor(a, b) % WORD end
	ror = function(a, n) return turn(a, n) % WORD end
else -- Lua 5.3 and later have operators, which older ones cannot parse
	xor = load("return function(a, b) return a ~ b end")()
	ror = load("return function(a, n) return ((a >> n) | (a << (32 - n))) & 0xFFFFFFFF end")()
end

local IV = {
	0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19 }
local SIGMA = {
	{ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
	{ 14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3 },
	{ 11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4 },
	{ 7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8 },
	{ 9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13 },
	{ 2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9 },
	{ 12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11 },
	{ 13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10 },
	{ 6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5 },
	{ 10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0 },
}
local COLUMNS = {
	{ 1, 5, 9, 13 }, { 2, 6, 10, 14 }, { 3, 7, 11, 15 }, { 4, 8, 12, 16 },
	{ 1, 6, 11, 16 }, { 2, 7, 12, 13 }, { 3, 8, 9, 14 }, { 4, 5, 10, 15 },
}

local function word(octets, at)
	local a, b, c, d = octets:byte(at, at + 3)
	return a + b * 256 + c * 65536 + d * 16777216
end

local function compress(h, block, count, is_last)
	local v, m = {}, {}
	for i = 1, 8 do v[i], v[i + 8] = h[i], IV[i] end
	v[13] = xor(v[13], count)
	if is_last then v[15] = xor(v[15], WORD - 1) end
	for i = 0, 15 do m[i] = word(block, 4 * i + 1) end
	for round = 1, 10 do
		for i, column in ipairs(COLUMNS) do
			local a, b, c, d = column[1], column[2], column[3], column[4]
			local x, y = m[SIGMA[round][2 * i - 1]], m[SIGMA[round][2 * i]]
			v[a] = (v[a] + v[b] + x) % WORD
			v[d] = ror(xor(v[d], v[a]), 16)
			v[c] = (v[c] + v[d]) % WORD
			v[b] = ror(xor(v[b], v[c]), 12)
			v[a] = (v[a] + v[b] + y) % WORD
			v[d] = ror(xor(v[d], v[a]), 8)
			v[c] = (v[c] + v[d]) % WORD
			v[b] = ror(xor(v[b], v[c]), 7)
		end
	end
	for i = 1, 8 do h[i] = xor(h[i], xor(v[i], v[i + 8])) end
end

local function tag_of(octets, key)
	local parameters = string.char(8, #key, 1, 1) .. string.rep("\0", 20) .. "xoffhdrm"
	local h = {}
	for i = 1, 8 do h[i] = xor(IV[i], word(parameters, 4 * i - 3)) end
	local input = (#key > 0 and key .. string.rep("\0", 64 - #key) or "") .. octets
	local count = 0
	while #input - count > 64 do
		compress(h, input:sub(count + 1, count + 64), count + 64, false)
		count = count + 64
	end
	local rest = input:sub(count + 1)
	compress(h, rest .. string.rep("\0", 64 - #rest), #input, true)
	local tag = ""
	for i = 1, 2 do
		for shift = 0, 3 do tag = tag .. string.format("%02x", math.floor(h[i] / 256 ^ shift) % 256) end
	end
	return tag
end

-- Measurement frames

local ethertypes = DissectorTable.get("ethertype")
local mac_control = ethertypes:get_dissector(0x8808)
local lldp = ethertypes:get_dissector(0x88CC)

local function hand_on(dissector, buffer, pinfo, tree)
	-- To one of Wireshark's own, whose complaint of too few octets would otherwise be shown as an error of this script.
	local is_whole, used = pcall(dissector.call, dissector, buffer, pinfo, tree)
	if is_whole then return used end
	tree:add_proto_expert_info(malformed)
	return buffer:len()
end

local target_field, source_field = Field.new("eth.dst"), Field.new("eth.src")

local function measurement(buffer, pinfo, tree)
	-- The buffer begins behind the EtherType; the tag covers the Ethernet header too.
	local at = {}
	for _, field in ipairs(MEASUREMENT) do at[field[1]] = buffer(field[2], field[3]) end
	local kind, version, tag = at.kind:uint(), at.version:uint(), buffer(TAGGED - 14, LENGTH - TAGGED)
	local name = KINDS[kind] or "of unknown kind"
	pinfo.cols.protocol = "XOFF"
	pinfo.cols.info = string.format(
		"Headroom %s, session 0x%08x, sequence %d", name, at.session:uint(), at.sequence:uint())
	local own = tree:add(xoff, buffer(0, LENGTH - 14), "Xoff headroom measurement " .. name)
	own:add(f.opcode, buffer(0, 2))
	local items = {}
	for _, field in ipairs(MEASUREMENT) do items[field[1]] = own:add(f[field[1]], at[field[1]]) end
	if KINDS[kind] == "response" then
		local held = at.t3:uint64() - at.t2:uint64()
		own:add(f.held, at.t3, Int64(held:lower(), held:higher())):set_generated()
	end
	local tag_item = own:add(f.tag, tag)
	if version ~= VERSION or not KINDS[kind] then items.kind:add_proto_expert_info(unknown) end
	local targets, sources = { target_field() }, { source_field() }
	if #targets > 0 and #sources > 0 then -- the innermost Ethernet header, if the frame came in a tunnel
		local octets = targets[#targets].range:bytes():tohex() .. sources[#sources].range:bytes():tohex() .. "8808"
			.. buffer(0, TAGGED - 14):bytes():tohex()
		local raw = octets:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)
		local key = xoff.prefs.key:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)
		local good = #key <= 32 and tag_of(raw, key) == tag:bytes():tohex():lower()
		tag_item:add(f.tag_good, tag, good):set_generated()
		if not good then tag_item:add_proto_expert_info(wrong_tag) end
	end
	return LENGTH - 14
end

local credit = Proto("xoff_credits", "Credits (CBFC, provisional)")
local c = credit.fields
c.message = ProtoField.string("xoff.credits.message", "Message")
c.vc = ProtoField.uint8("xoff.credits.vc", "Virtual channel")
c.freed = ProtoField.uint16("xoff.credits.freed", "Credits freed")
c.used = ProtoField.uint32("xoff.credits.used", "Credits used")

local function credit_update(buffer, pinfo, tree)
	local own, is_cf = tree:add(credit, buffer()), buffer(2, 3):uint() == CARRIED
	pinfo.cols.protocol = "CBFC"
	pinfo.cols.info = is_cf and "CF_Update" or "CC_Update"
	own:add(c.message, buffer(2, 4), is_cf and "CF_Update" or "CC_Update")
	if is_cf then
		for _, at in ipairs({ 7, 10 }) do
			local part = buffer(at, 3)
			own:add(c.vc, part, part:bitfield(0, 5))
			own:add(c.freed, part, part:bitfield(5, FREED_BITS))
		end
		return 13
	end
	local first, counters = (buffer(5, 1):uint() - 1) * COUNTERS, buffer(6, COUNTERS * USED_BITS / 8)
	for place = 0, COUNTERS - 1 do
		local used = counters:bitfield(place * USED_BITS, USED_BITS)
		if used > 0 then
			own:add(c.vc, counters, first + place)
			own:add(c.used, counters, used)
		end
	end
	return 46
end

function xoff.dissector(buffer, pinfo, tree)
	local is_ours = buffer:len() >= LENGTH - 14 and buffer(0, 2):uint() == xoff.prefs.opcode
		and buffer(2, 3):uint() == EXTENSION
	if is_ours then return measurement(buffer, pinfo, tree) end
	if buffer:len() >= 13 and buffer(0, 2):uint() == OPCODE then
		local whose = buffer(2, 3):uint()
		if whose == CARRIED or (whose == CREDITS and buffer:len() >= 46) then return credit_update(buffer, pinfo, tree) end
	end
	return hand_on(mac_control, buffer, pinfo, tree)
end

ethertypes:add(0x8808, xoff)

-- The capability in LLDP, and slices

local function tlvs_of(buffer)
	-- What an LLDPDU has of DCBX, as {subtype, offset, octets behind the subtype}; whether it is of the draft's format.
	local found, is_draft, at = {}, false, 0
	while at + 2 <= buffer:len() do
		local head = buffer(at, 2):uint()
		local kind, length = math.floor(head / 512), head % 512
		if kind == 0 or at + 2 + length > buffer:len() then break end
		if kind == 127 and length >= 4 and buffer(at + 2, 3):uint() == OUI then
			local subtype = buffer(at + 5, 1):uint()
			if subtype >= 8 and subtype <= 13 then found[#found + 1] = { subtype, at, length - 4 } end
			local layout = DRAFT[subtype]
			if layout and not layout.entries and not layout.extra and layout.octets == length - 4 then is_draft = true end
		end
		at = at + 2 + length
	end
	return found, is_draft
end

local function add_fields(item, layout, range)
	for _, field in ipairs(layout) do
		local name, at, bits, zero = field[1], field[2], field[3], field[4]
		local first = math.floor(at / 8)
		local octets, value = range(first, math.ceil((at + bits) / 8) - first), range:bitfield(at, bits)
		if bits == 1 then
			item:add(d[name], octets, value == 1)
		else
			item:add(d[name], octets, value == 0 and zero or value)
		end
	end
end

local function draft_tlv(tree, subtype, range)
	-- One TLV of the DCBX draft of April 2009, which Wireshark does not have.
	local layout = DRAFT[subtype]
	local item = tree:add(extras, range, "DCBX draft: " .. (layout and layout.name or "TLV"))
	item:add(d.subtype, range(3, 1))
	if not layout or range:len() < 4 + layout.octets then return end
	local info = range(4)
	add_fields(item, layout, info)
	if layout.extra and info:len() > layout.octets then item:add(d[layout.extra], info(layout.octets, 1)) end
	if layout.entries then
		for at = layout.octets, info:len() - ENTRY.octets, ENTRY.octets do
			local entry = info(at, ENTRY.octets)
			add_fields(item:add(d.entry, entry), ENTRY, entry)
		end
	end
end

local lldp_frames = Proto("xoff_lldp", "LLDP with Xoff's capability")

function lldp_frames.dissector(buffer, pinfo, tree)
	-- Wireshark's own dissector goes on at a wrong place behind a PFC TLV that is longer than the standard's, and takes the
	-- draft's TLVs for the standard's. So it gets the frame without these.
	local found, is_draft = tlvs_of(buffer)
	local left, at, is_changed = ByteArray.new(), 0, false
	local rest = buffer:bytes()
	local function keep(till)
		if till > at then left:append(rest:subset(at, till - at)) end
	end
	for _, tlv in ipairs(found) do
		local subtype, start, length = tlv[1], tlv[2], tlv[3]
		local own = is_draft and 3 or 2
		if is_draft then
			keep(start)
			at, is_changed = start + 6 + length, true
		elseif subtype == 11 and length > own then
			keep(start)
			left:append(ByteArray.new("fe060080c20b"))
			left:append(rest:subset(start + 6, own))
			at, is_changed = start + 6 + length, true
		end
	end
	if is_changed then
		keep(buffer:len())
		hand_on(lldp, left:tvb("LLDP without Xoff's octets"), pinfo, tree)
	else
		hand_on(lldp, buffer, pinfo, tree)
	end
	for _, tlv in ipairs(found) do
		local subtype, start, length = tlv[1], tlv[2], tlv[3]
		local own = is_draft and 3 or 2
		if is_draft then draft_tlv(tree, subtype, buffer(start + 2, 4 + length)) end
		if subtype == 11 and length > own then
			local octet = buffer(start + 6 + own, 1)
			local item = tree:add(extras, octet, "Xoff headroom capability in the PFC TLV")
			item:add(g.capability, octet)
			item:add(g.capable, octet, octet:uint() == CAPABLE):set_generated()
		end
	end
	return buffer:len()
end

ethertypes:add(0x88CC, lldp_frames)

local flow = Proto("xoff_flow", "Xoff UDP flow")
flow.fields.number = ProtoField.uint64("xoff.flow.number", "Datagram")
flow.fields.sent = ProtoField.uint64("xoff.flow.sent", "Sent (ns, monotonic clock of the lab)")

function flow.dissector(buffer, pinfo, tree)
	if buffer:len() < 16 then return 0 end
	pinfo.cols.protocol = "XOFF-FLOW"
	local own = tree:add(flow, buffer())
	own:add_le(flow.fields.number, buffer(0, 8))
	own:add_le(flow.fields.sent, buffer(8, 8))
	pinfo.cols.info = string.format("Datagram %s to port %d", tostring(buffer(0, 8):le_uint64()), pinfo.dst_port)
	return buffer:len()
end

DissectorTable.get("udp.port"):add(FLOW_PORTS, flow)

local telemetry = Proto("xoff_int", "Xoff in-band telemetry")
telemetry.fields = {}
local t = telemetry.fields
t.version = ProtoField.uint8("xoff.int.version", "Version")
t.kind = ProtoField.uint8("xoff.int.kind", "Kind", base.DEC, INT_KINDS)
t.room = ProtoField.uint8("xoff.int.room", "Room for stamps")
t.count = ProtoField.uint8("xoff.int.count", "Stamps")
t.overflowed = ProtoField.bool("xoff.int.overflowed", "A port found no room")
t.stamp = ProtoField.bytes("xoff.int.stamp", "Stamp")
t.time = ProtoField.uint32("xoff.int.time", "Time (ns, modulo 2^32)")
t.queue = ProtoField.uint32("xoff.int.queue", "Octets in the queue")
t.sent = ProtoField.uint32("xoff.int.sent", "Octets sent (modulo 2^32)")
t.rate = ProtoField.uint32("xoff.int.rate", "Line (kb/s)")

local AETH_OCTETS, OFFSET_OCTETS = 4, 4
local roce = DissectorTable.get("udp.port"):get_dissector(ROCE_PORT)
local selective = Proto("xoff_roce", "Xoff selective acknowledgement of RoCE")
selective.fields.missing = ProtoField.uint24("xoff.roce.missing", "PSN of the missing packet")
selective.fields.msn = ProtoField.uint24("xoff.roce.msn", "Message sequence number")
selective.fields.offset = ProtoField.uint32("xoff.roce.offset", "Packets between it and the first bit, less one")
selective.fields.bitmap = ProtoField.bytes("xoff.roce.bitmap", "Packets behind it that have come, one bit each")
selective.fields.arrived = ProtoField.uint24("xoff.roce.arrived", "PSN of a packet that has come")

local rest = Proto("xoff_rest", "Xoff rest of a trimmed packet")
rest.fields.octets = ProtoField.uint16("xoff.rest.octets", "Octets behind the UDP header")
rest.fields.opcode = ProtoField.uint8("xoff.rest.opcode", "Opcode", base.HEX)
rest.fields.queue_pair = ProtoField.uint24("xoff.rest.queue_pair", "Destination queue pair", base.HEX)
rest.fields.psn = ProtoField.uint24("xoff.rest.psn", "Packet sequence number")
local ip_field, ipv6_field, udp_field = Field.new("ip"), Field.new("ipv6"), Field.new("udp")
local CRC = {}
for octet = 0, 255 do
	local value = octet
	for _ = 1, 8 do value = value % 2 == 1 and xor(math.floor(value / 2), 0xEDB88320) or math.floor(value / 2) end
	CRC[octet] = value
end

local function innermost(field)
	local found = { field() }
	if #found > 0 then return found[#found].range:bytes() end
end

local function is_intact(ip, udp, buffer, version)
	-- Whether the ICRC is right: what a network changes counts as ones.
	local crc = WORD - 1
	local function add(bytes, count, masked)
		for place = 0, count - 1 do
			local octet = masked[place] or (bytes and bytes:get_index(place)) or 0xFF
			crc = xor(math.floor(crc / 256), CRC[xor(crc % 256, octet)])
		end
	end
	add(nil, 8, {})
	if version == 4 then
		add(ip, 20, { [1] = 0xFF, [8] = 0xFF, [10] = 0xFF, [11] = 0xFF })
	else
		add(ip, 40, { [0] = 0x6F, [1] = 0xFF, [2] = 0xFF, [3] = 0xFF, [7] = 0xFF })
	end
	add(udp, 8, { [6] = 0xFF, [7] = 0xFF })
	add(buffer:bytes(), buffer:len() - ICRC_OCTETS, { [4] = 0xFF })
	return xor(crc, WORD - 1) == buffer(buffer:len() - ICRC_OCTETS):le_uint()
end

local function mark_rest(buffer, pinfo, tree)
	-- A packet of data with the DSCP of rests, by the innermost header of IP, and without a right ICRC.
	if buffer:len() < BTH_OCTETS or not DATA[buffer(0, 1):uint()] then return end
	local v4, v6, udp = innermost(ip_field), innermost(ipv6_field), innermost(udp_field)
	local ip, version, dscp = v6, 6, nil
	if v4 then
		ip, version, dscp = v4, 4, math.floor(v4:get_index(1) / 4)
	elseif v6 then
		dscp = v6:get_index(0) % 16 * 4 + math.floor(v6:get_index(1) / 64)
	end
	if dscp ~= xoff.prefs.rests or not udp or is_intact(ip, udp, buffer, version) then return end
	pinfo.cols.info:append(" [rest of a trimmed packet]")
	local own = tree:add(rest, buffer(0, BTH_OCTETS), "Rest of a packet of RoCE that a switch has trimmed")
	own:add(rest.fields.octets, buffer(), buffer:len()):set_generated()
	own:add(rest.fields.opcode, buffer(0, 1))
	own:add(rest.fields.queue_pair, buffer(5, 3))
	own:add(rest.fields.psn, buffer(9, 3))
end

local function transport(buffer, pinfo, tree)
	-- What Wireshark makes of a packet, and behind it what a selective acknowledgement says.
	local used = hand_on(roce, buffer, pinfo, tree)
	local bits = BTH_OCTETS + AETH_OCTETS
	local count = buffer:len() - ICRC_OCTETS - bits
	if count < 0 or buffer(0, 1):uint() ~= SELECTIVE then return used end
	local missing = buffer(9, 3):uint()
	pinfo.cols.info = string.format("RoCE selective acknowledgement, PSN %d is missing", missing)
	local own = tree:add(selective, buffer(0, buffer:len() - ICRC_OCTETS), "Xoff selective acknowledgement of RoCE")
	own:add(selective.fields.missing, buffer(9, 3))
	own:add(selective.fields.msn, buffer(BTH_OCTETS + 1, 3))
	local offset = 0
	if count >= OFFSET_OCTETS then
		offset = buffer(bits, OFFSET_OCTETS):uint()
		own:add(selective.fields.offset, buffer(bits, OFFSET_OCTETS))
		bits, count = bits + OFFSET_OCTETS, count - OFFSET_OCTETS
	end
	if count > 0 then own:add(selective.fields.bitmap, buffer(bits, count)) end
	for place = 0, count * 8 - 1 do
		local octet = buffer(bits + math.floor(place / 8), 1)
		if math.floor(octet:uint() / 2 ^ (7 - place % 8)) % 2 == 1 then
			own:add(selective.fields.arrived, octet, (missing + 1 + offset + place) % 2 ^ 24)
		end
	end
	return buffer:len()
end

local function area_of(buffer)
	if buffer:len() < BTH_OCTETS + HEAD_OCTETS or math.floor(buffer(8, 1):uint() / 0x40) % 2 == 0 then return nil end
	local octets = HEAD_OCTETS + STAMP_OCTETS * buffer(BTH_OCTETS + 1, 1):uint()
	if buffer:len() < BTH_OCTETS + octets then return nil end
	return buffer(BTH_OCTETS, octets)
end

function telemetry.dissector(buffer, pinfo, tree)
	local area = area_of(buffer)
	if not area then
		local used = transport(buffer, pinfo, tree)
		mark_rest(buffer, pinfo, tree)
		return used
	end
	local behind = BTH_OCTETS + area:len()
	local rest = buffer(0, BTH_OCTETS):bytes()
	rest:set_index(8, rest:get_index(8) - 0x40)
	if buffer:len() > behind then rest:append(buffer(behind):bytes()) end
	transport(rest:tvb("RoCEv2 without telemetry"), pinfo, tree)
	local own, first = tree:add(telemetry, area), area(0, 1)
	own:add(t.version, first, math.floor(first:uint() / 16))
	own:add(t.kind, first, first:uint() % 16)
	own:add(t.room, area(1, 1))
	own:add(t.count, area(2, 1))
	own:add(t.overflowed, area(3, 1), area(3, 1):uint() % 2 == 1)
	for number = 0, math.min(area(2, 1):uint(), area(1, 1):uint()) - 1 do
		local at = area(HEAD_OCTETS + STAMP_OCTETS * number, STAMP_OCTETS)
		local stamp = own:add(t.stamp, at)
		for _, field in ipairs(STAMP) do stamp:add(t[field[1]], at(field[2], field[3])) end
	end
	return buffer:len()
end

DissectorTable.get("udp.port"):set(ROCE_PORT, telemetry)

local esun = Proto("xoff_esun", "ESUN (provisional)")
esun.fields = {}
local e = esun.fields
for _, field in ipairs(ESUN) do
	e[field[1]] = ProtoField.uint16("xoff.esun." .. field[1], field[1]:gsub("_", " "), base.DEC)
end

function esun.dissector(buffer, pinfo, tree)
	if buffer:len() < ESUN_OCTETS then return 0 end
	local own, head = tree:add(esun, buffer(0, ESUN_OCTETS)), buffer(0, ESUN_OCTETS)
	pinfo.cols.protocol = "ESUN"
	for _, field in ipairs(ESUN) do own:add(e[field[1]], head, head:bitfield(field[2], field[3])) end
	return ESUN_OCTETS
end

ethertypes:add(ESUN_TYPE, esun)

-- What a line with LLR carried: a shim with the preamble, or an ordered set

local llr = Proto("xoff_llr", "Link Layer Retry (provisional)")
local l = llr.fields
l.version = ProtoField.uint8("xoff.llr.version", "Version of the shim")
l.kind = ProtoField.uint8("xoff.llr.kind", "Kind", base.DEC, LLR_KINDS)
l.fate = ProtoField.uint8("xoff.llr.fate", "Fate on the line", base.DEC, LLR_FATES)
l.replay = ProtoField.bool("xoff.llr.replay", "Replay")
l.plain = ProtoField.bool("xoff.llr.plain", "Without a sequence number")
l.preamble = ProtoField.bytes("xoff.llr.preamble", "Preamble")
l.set = ProtoField.uint8("xoff.llr.set", "Ordered set", base.DEC, LLR_SETS)
l.sequence = ProtoField.uint32("xoff.llr.sequence", "Sequence")
l.data = ProtoField.uint16("xoff.llr.data", "Data", base.HEX)
local without_fcs = Dissector.get("eth_withoutfcs")

function llr.dissector(buffer, pinfo, tree)
	if buffer:len() < LLR_OCTETS then return 0 end
	local own, at, values = tree:add(llr, buffer(0, LLR_OCTETS)), {}, {}
	for _, field in ipairs(LLR) do
		at[field[1]] = buffer(field[2], field[3])
		if field[3] == 1 then values[field[1]] = at[field[1]]:uint() end
	end
	for _, name in ipairs({ "version", "kind", "fate" }) do own:add(l[name], at[name]) end
	local is_replay, is_plain = values.flags % 2 == LLR_REPLAY, values.flags >= LLR_PLAIN
	own:add(l.replay, at.flags, is_replay)
	own:add(l.plain, at.flags, is_plain)
	local fate = values.fate == 0 and "" or ", " .. (LLR_FATES[values.fate] or "?")
	if LLR_KINDS[values.kind] == "ordered set" then
		local number, kind = at.line:bitfield(16, 20), at.line(1, 1):uint()
		own:add(l.set, at.line(1, 1))
		own:add(l.sequence, at.line(2, 3), number)
		if at.line(5, 2):uint() > 0 then own:add(l.data, at.line(5, 2), at.line(5, 2):le_uint()) end
		pinfo.cols.protocol = "LLR"
		pinfo.cols.info = string.format("%s %d%s", LLR_SETS[kind] or "ordered set", number, fate)
		return LLR_OCTETS
	end
	own:add(l.preamble, at.line)
	if not is_plain then own:add(l.sequence, at.line(4, 3)) end
	if buffer:len() > LLR_OCTETS then without_fcs:call(buffer(LLR_OCTETS):tvb(), pinfo, tree) end
	local words = is_plain and "frame without LLR" or "LLR frame " .. at.line(4, 3):uint()
	pinfo.cols.info:prepend(words .. (is_replay and ", replay" or "") .. fate .. "; ")
	return buffer:len()
end

ethertypes:add(LLR_TYPE, llr)

local options = Field.new("ipv6.opt")

function extras.dissector(buffer, pinfo, tree)
	for _, option in ipairs({ options() }) do
		local range = option.range
		if range:len() == 2 + SLICE_OCTETS and range(0, 1):uint() == SLICE and range(3, 1):uint() == 0 then
			local item = tree:add(extras, range, "Slice of Xoff")
			item:add(g.slice, range(6, 4))
			item:add(g.strict, range(2, 1), range(2, 1):uint() >= 0x80)
		end
	end
end

register_postdissector(extras)
