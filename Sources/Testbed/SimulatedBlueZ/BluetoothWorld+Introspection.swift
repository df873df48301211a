import BlueZ

/// The answer of `Introspect`, for tools that browse the bus.
extension BluetoothWorld {
    private static let methods: [String: [(name: String, taken: String, given: String)]] = [
        BlueZName.adapter: [
            ("StartDiscovery", "", ""), ("StopDiscovery", "", ""),
            ("SetDiscoveryFilter", "a{sv}", ""), ("GetDiscoveryFilters", "", "as"),
            ("RemoveDevice", "o", ""),
        ],
        BlueZName.device: [
            ("Connect", "", ""), ("Disconnect", "", ""), ("Pair", "", ""),
            ("CancelPairing", "", ""),
        ],
        BlueZName.characteristic: [
            ("ReadValue", "a{sv}", "ay"), ("WriteValue", "aya{sv}", ""), ("StartNotify", "", ""),
            ("StopNotify", "", ""),
        ],
        BlueZName.descriptor: [("ReadValue", "a{sv}", "ay")],
        BlueZName.agentManager: [
            ("RegisterAgent", "os", ""), ("UnregisterAgent", "o", ""),
            ("RequestDefaultAgent", "o", ""),
        ],
        BlueZName.properties: [
            ("Get", "ss", "v"), ("Set", "ssv", ""), ("GetAll", "s", "a{sv}"),
        ],
        BlueZName.introspectable: [("Introspect", "", "s")],
        BlueZName.objectManager: [("GetManagedObjects", "", "a{oa{sa{sv}}}")],
    ]

    mutating func introspect(_ call: DBusMessage) {
        let path = call.path ?? "/"
        let below = path == "/" ? "/" : path + "/"
        let children = Set(
            tree.objects.keys.filter { $0.hasPrefix(below) && $0 != path }
                .compactMap { $0.dropFirst(below.count).split(separator: "/").first })
        var interfaces = tree.objects[path] ?? [:]
        if tree.objects[path] != nil { interfaces[BlueZName.properties] = [:] }
        if path == "/" { interfaces[BlueZName.objectManager] = [:] }
        guard !interfaces.isEmpty || !children.isEmpty else { return refuseUnknown(call) }
        interfaces[BlueZName.introspectable] = [:]

        var text = """
            <!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
             "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
            <node>

            """
        for (interface, properties) in interfaces.sorted(by: { $0.key < $1.key }) {
            text += "  <interface name=\"\(interface)\">\n"
            for (name, taken, given) in Self.methods[interface] ?? [] {
                text += "    <method name=\"\(name)\">\n"
                for type in Self.completeTypes(taken) {
                    text += "      <arg type=\"\(type)\" direction=\"in\"/>\n"
                }
                for type in Self.completeTypes(given) {
                    text += "      <arg type=\"\(type)\" direction=\"out\"/>\n"
                }
                text += "    </method>\n"
            }
            for (name, value) in properties.sorted(by: { $0.key < $1.key }) {
                text += "    <property name=\"\(name)\" type=\"\(value.signature)\""
                text += " access=\"read\"/>\n"
            }
            text += "  </interface>\n"
        }
        for child in children.sorted() { text += "  <node name=\"\(child)\"/>\n" }
        answer(call, .string(text + "</node>\n"))
    }

    /// Splits a signature of basic types, arrays and dictionaries into its complete types.
    static func completeTypes(_ signature: String) -> [String] {
        var types: [String] = []
        var type = ""
        var depth = 0
        for character in signature {
            type.append(character)
            switch character {
            case "{": depth += 1
            case "}": depth -= 1
            case "a": continue
            default: break
            }
            if depth == 0 {
                types.append(type)
                type = ""
            }
        }
        return types
    }
}
