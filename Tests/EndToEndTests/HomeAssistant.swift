import Foundation
import Testbed
import Testing

/// A Home Assistant that Tests/HomeAssistant/run has started, asked through its REST API.
struct HomeAssistant {
    /// What the script writes down.
    private struct Facts: Decodable {
        var url, token, log: String
    }

    /// What it shows of one thing of a device.
    struct Entity: Decodable {
        struct Item: Decodable {
            var name: String
            var detail: String
        }

        /// Its name and its device's, as a person sees them.
        var name: String?
        var state: String
        var device, model, version: String?
        /// The name of the device through which that one is reached.
        var above: String?
        var kind, unit, statistics: String?
        /// What is wrong with the gateway.
        var items: [Item]?

        /// Whether it shows a number.
        var isNumber: Bool { Double(state) != nil }
    }

    private static let variable = "HOME_ASSISTANT"
    static let isThere = ProcessInfo.processInfo.environment[variable] != nil
    /// For what takes the gateway five seconds, and a busy machine more.
    private static let patience = Duration.seconds(120)
    private static let pause = Duration.milliseconds(500)

    private let facts: Facts

    init() throws {
        let path = try #require(ProcessInfo.processInfo.environment[Self.variable])
        facts = try JSONDecoder().decode(Facts.self, from: Data(contentsOf: URL(filePath: path)))
    }

    // MARK: - The broker

    /// Adds the integration MQTT as a person does, with a broker on this machine.
    ///
    /// - Returns: its number.
    func connect(port: Int) async throws -> String {
        struct Form: Decodable { var flowId: String }
        struct Made: Decodable {
            struct Entry: Decodable { var entryId: String }
            var type: String
            var result: Entry
        }
        let flows = "/api/config/config_entries/flow"
        let form: Form = try await post(flows, #"{"handler":"mqtt"}"#)
        let made: Made = try await post(
            "\(flows)/\(form.flowId)", #"{"broker":"127.0.0.1","port":\#(port)}"#)
        try #require(made.type == "create_entry")
        return made.result.entryId
    }

    /// Sets the integration up anew, as at a start: it gets what the broker kept.
    func reload(_ entry: String) async throws {
        _ = try await ask("/api/config/config_entries/entry/\(entry)/reload", "{}")
    }

    // MARK: - What it shows

    /// Everything it knows by MQTT, by name.
    func entities() async throws -> [String: Entity] {
        let all: [Entity] = try await evaluate(
            """
            {%- set found = namespace(all=[]) -%}
            {%- for id in integration_entities('mqtt') -%}
            {%- set device = device_id(id) -%}
            {%- set above = device_attr(device, 'via_device_id') -%}
            {%- set found.all = found.all + [dict(
                name=state_attr(id, 'friendly_name'), state=states(id), items=state_attr(id, 'items'),
                kind=state_attr(id, 'device_class'), unit=state_attr(id, 'unit_of_measurement'),
                statistics=state_attr(id, 'state_class'), device=device_attr(device, 'name'),
                model=device_attr(device, 'model'), version=device_attr(device, 'sw_version'),
                above=device_attr(above, 'name') if above else none)] -%}
            {%- endfor -%}
            {{ found.all | to_json }}
            """)
        return try Dictionary(all.map { (try #require($0.name), $0) }) { one, _ in
            Issue.record("two have the name \(one.name ?? "")")
            return one
        }
    }

    /// Waits until it has no device of this name.
    func eventuallyLacks(
        _ device: String, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let end = ContinuousClock.now + Self.patience
        while try await evaluate("{{ (device_id('\(device)') is not none) | to_json }}") {
            guard ContinuousClock.now < end else {
                Issue.record("the device \(device) stays", sourceLocation: sourceLocation)
                return
            }
            try await Task.sleep(for: Self.pause)
        }
    }

    /// Waits until it shows something.
    @discardableResult
    func eventually(
        _ what: String, within patience: Duration = patience,
        sourceLocation: SourceLocation = #_sourceLocation, _ holds: ([String: Entity]) -> Bool
    ) async throws -> [String: Entity] {
        let end = ContinuousClock.now + patience
        while true {
            let entities = try await entities()
            if holds(entities) { return entities }
            guard ContinuousClock.now < end else {
                let shown = entities.map { "\($0.key): \($0.value.state)" }.sorted()
                Issue.record(
                    "\(what): it shows \(shown.joined(separator: ", "))",
                    sourceLocation: sourceLocation)
                return entities
            }
            try await Task.sleep(for: Self.pause)
        }
    }

    /// The warnings and errors in its log.
    func complaints() throws -> [String] {
        try String(contentsOfFile: facts.log, encoding: .utf8).split(separator: "\n")
            .map(String.init).filter {
                $0.contains(#/^[-0-9]+ [:.0-9]+ (WARNING|ERROR|CRITICAL) /#)
            }
    }

    // MARK: - Asking

    private func evaluate<Value: Decodable>(_ template: String) async throws -> Value {
        let body = try JSONEncoder().encode(["template": template])
        return try await post("/api/template", String(decoding: body, as: UTF8.self))
    }

    private func post<Value: Decodable>(_ path: String, _ body: String) async throws -> Value {
        let answer = try await ask(path, body)
        do {
            let decoder = JSONDecoder()
            decoder.keyDecodingStrategy = .convertFromSnakeCase
            return try decoder.decode(Value.self, from: Data(answer.utf8))
        } catch {
            throw SystemFault("Home Assistant answers \(path) with \(answer): \(error)")
        }
    }

    private func ask(_ path: String, _ body: String) async throws -> String {
        let outcome = try await Command.run(
            "/usr/bin/curl",
            [
                "-sS", "--fail-with-body", "--noproxy", "*", "--max-time", "60", "-H",
                "Content-Type: application/json", "-H", "Authorization: Bearer \(facts.token)",
                "--data-binary", "@-", facts.url + path,
            ], input: body)
        guard outcome.status == 0 else {
            throw SystemFault("Home Assistant, \(path): \(outcome.complaint)\(outcome.output)")
        }
        return outcome.output
    }
}
