import BlueZ

/// The objects a service shows on the bus: path → interface → property, and the signals that tell
/// of their changes.
struct ObjectTree {
    /// The properties of one interface by name.
    typealias Properties = [String: DBusValue]

    private(set) var objects: [String: [String: Properties]] = [:]

    /// The value of a property, if there is one.
    subscript(path: String, interface: String, name: String) -> DBusValue? {
        objects[path]?[interface]?[name]
    }

    /// Whether the object has the interface.
    func has(_ path: String, _ interface: String) -> Bool {
        objects[path]?[interface] != nil
    }

    /// Paths of the object and everything below it, in order; `/a/hci1` is not above `/a/hci10`.
    func paths(under path: String) -> [String] {
        objects.keys.filter { $0 == path || $0.hasPrefix(path + "/") }.sorted()
    }

    /// Adds interfaces to an object, new or not.
    mutating func add(_ path: String, _ interfaces: [String: Properties]) -> DBusMessage {
        let isNew = objects[path] == nil
        objects[path, default: [:]].merge(interfaces) { $1 }
        return .signal(
            path: "/", interface: BlueZName.objectManager, member: "InterfacesAdded",
            body: [.objectPath(path), Self.interfaces(interfaces, withStandard: isNew)])
    }

    /// Removes an object, children not included.
    mutating func remove(_ path: String) -> DBusMessage? {
        guard let interfaces = objects.removeValue(forKey: path) else { return nil }
        return removed(
            path,
            [BlueZName.properties, BlueZName.introspectable] + interfaces.keys.sorted())
    }

    /// Removes one interface of an object.
    mutating func remove(_ path: String, interface: String) -> DBusMessage? {
        guard objects[path]?.removeValue(forKey: interface) != nil else { return nil }
        return removed(path, [interface])
    }

    /// Removes everything without a word, as a crash does.
    mutating func clear() {
        objects = [:]
    }

    /// Sets properties of one interface, all told in one signal.
    ///
    /// - Parameters:
    ///   - changes: new values; nil takes the property away.
    ///   - unsignalled: properties that change without being told.
    /// - Returns: the signal, or nil if there is nothing to tell.
    mutating func set(
        _ path: String, _ interface: String, _ changes: [String: DBusValue?],
        unsignalled: Set<String> = [], evenIfEqual: Bool = false
    ) -> DBusMessage? {
        guard var properties = objects[path]?[interface] else { return nil }
        var changed: Properties = [:]
        var invalidated: [String] = []
        for (name, value) in changes {
            if !evenIfEqual, properties[name] == value { continue }
            properties[name] = value
            if unsignalled.contains(name) { continue }
            if let value { changed[name] = value } else { invalidated.append(name) }
        }
        objects[path]?[interface] = properties
        guard !changed.isEmpty || !invalidated.isEmpty else { return nil }
        return .signal(
            path: path, interface: BlueZName.properties, member: "PropertiesChanged",
            body: [
                .string(interface), .properties(changed), .strings(invalidated.sorted()),
            ])
    }

    /// The answer to `GetManagedObjects`: `a{oa{sa{sv}}}`.
    func managedObjects() -> DBusValue {
        .dictionary(
            key: "o", value: "a{sa{sv}}",
            objects.sorted { $0.key < $1.key }.map { path, interfaces in
                .init(
                    key: .objectPath(path), value: Self.interfaces(interfaces, withStandard: true))
            })
    }

    private func removed(_ path: String, _ interfaces: [String]) -> DBusMessage {
        .signal(
            path: "/", interface: BlueZName.objectManager, member: "InterfacesRemoved",
            body: [.objectPath(path), .strings(interfaces)])
    }

    private static func interfaces(
        _ interfaces: [String: Properties], withStandard: Bool
    ) -> DBusValue {
        var all = interfaces
        if withStandard {
            all[BlueZName.introspectable] = [:]
            all[BlueZName.properties] = [:]
        }
        return .dictionary(
            key: "s", value: "a{sv}",
            all.sorted { $0.key < $1.key }.map {
                .init(key: .string($0.key), value: .properties($0.value))
            })
    }
}
