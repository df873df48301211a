import Foundation
import Testbed

// The stand-in exchange as a program: `stand-in-exchange PATIENT…`
//
// Prints {"port": …, "links": […]}, an invitation for each patient. Then takes a command a line and
// answers each with a line of JSON, and leaves when there are no more:
//   cut, restore    the network
//   books           {"stored": […], "twice": …, "orphans": …}, each row with patient, time and bpm

/// A row as the exchange has it.
struct Row: Encodable {
    var patient: Int
    var time: String?
    var bpm: Double?
}

struct Books: Encodable {
    var stored: [Row]
    var twice: Int
    var orphans: Int
}

struct Opening: Encodable {
    var port: Int
    var links: [String]
}

func say(_ answer: some Encodable) throws {
    let line = try JSONEncoder().encode(answer) + Data("\n".utf8)
    FileHandle.standardOutput.write(line)
}

func complain(_ text: String) -> Never {
    FileHandle.standardError.write(Data("stand-in-exchange: \(text)\n".utf8))
    exit(2)
}

let patients = CommandLine.arguments.dropFirst().map { Int($0) }
guard !patients.isEmpty, !patients.contains(nil) else { complain("takes numbers of patients") }
let exchange = try await StandInExchange.start()
var links: [String] = []
for patient in patients.compactMap({ $0 }) { links.append(await exchange.invite(patient: patient)) }
try say(Opening(port: exchange.port, links: links))
while let command = readLine() {
    switch command {
    case "cut": await exchange.cutNetwork()
    case "restore": try await exchange.restoreNetwork()
    case "books":
        let stored = await exchange.stored
        try say(
            Books(
                stored: stored.map {
                    Row(patient: $0.patient, time: $0.effectiveTime, bpm: $0.beatsPerMinute)
                },
                twice: await exchange.duplicates.count, orphans: await exchange.orphans))
        continue
    default: complain("no such command: \(command)")
    }
    try say([String: String]())
}
