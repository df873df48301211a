import Basics
import Foundation
import Health
import OfflineQueue
import Uplink

/// Adds, tries, pauses and removes alerts.
struct AlertService: Sendable {
    /// An item that lasts longer than this is no news.
    private static let waitMax = 86_400
    /// All of an alert's settings together; those of all alerts fit into their file.
    private static let settingsBytesMax = 4_096

    let alerts: Alerts

    /// Tries an alert and stores it. An existing one of that name and kind gets the new settings
    /// if the request says `replace`.
    ///
    /// - Throws: ``ProblemReport``; before the alert is stored, nothing was changed.
    func add(_ ask: AlertAddRequest) async throws -> AlertReport {
        try GivenName.check(ask.name)
        let same = try await alerts.record(ask.name ?? ask.kind)
        let name = same?.name ?? ask.name ?? ask.kind
        let size = ask.settings.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
        guard size <= Self.settingsBytesMax else {
            throw ProblemReport(
                code: .badAlert, message: "the settings are too long",
                advice: "give at most \(Self.settingsBytesMax) bytes in all")
        }
        do {
            _ = try AlertRegistry.alert(ask.kind, ask.settings)
        } catch {
            throw ProblemReport(code: .badAlert, message: error.message, advice: error.advice)
        }
        if let same { try Self.check(ask, same) }
        let standard = AlertSchedule.Patience()
        let record = AlertRecord(
            id: Alerts.randomText(), name: name, kind: ask.kind,
            settings: ask.settings.mapValues { Secret($0) },
            errorsAfter: try Self.wait(ask.errorsAfter, standard.errors),
            warningsAfter: try Self.wait(ask.warningsAfter, standard.warnings),
            strapNames: ask.strapNames ?? false)
        try await tryOut(record)
        return try await alerts.add(record)
    }

    /// Who adds a second alert and names neither would leave the first one's readers without it.
    private static func check(_ ask: AlertAddRequest, _ same: AlertRecord) throws {
        guard same.kind == ask.kind else {
            throw ProblemReport(
                code: .nameTaken, message: "the name \(same.name) is another alert's",
                advice: "choose another --name; edge-gateway alert list")
        }
        let asked = ask.settings.mapValues { Secret($0) }
        let other = Set(same.settings.keys).union(asked.keys)
            .filter { same.settings[$0] != asked[$0] }.sorted()
        guard !other.isEmpty, ask.replace != true else { return }
        throw ProblemReport(
            code: .nameTaken,
            message:
                "there is an alert \(same.name) already, with another \(other.joined(separator: ", "))",
            advice: "give a second one a --name of its own, or --replace the settings of this one")
    }

    private static func wait(_ given: Int?, _ standard: Duration) throws -> Int {
        let seconds = given ?? Int(standard.inSeconds)
        guard 0...waitMax ~= seconds else {
            throw ProblemReport(
                code: .badRequest, message: "an alert waits a day at most",
                advice: "give 0 to \(waitMax) seconds")
        }
        return seconds
    }

    /// Sends a message that says that it is a test, or gives a sign of life.
    func test(_ name: String) async throws -> AlertReport {
        guard let record = try await alerts.record(name) else {
            throw ProblemReport.unknownAlert
        }
        try await tryOut(record)
        return try await alerts.report(name)
    }

    private func tryOut(_ record: AlertRecord) async throws {
        do {
            try await alerts.test(record)
        } catch {
            throw ProblemReport(
                code: .alertRefused, message: error.message,
                advice: "check address, account and network, and give the command again")
        }
    }
}

extension ProblemReport {
    static let unknownAlert = ProblemReport(
        code: .unknownAlert, message: "there is no alert of that name",
        advice: "edge-gateway alert list lists them")
}
