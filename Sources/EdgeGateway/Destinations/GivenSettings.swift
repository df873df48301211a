import ArgumentParser
import Foundation

/// Settings as a person gives them: `name=value`, `name=@FILE` or `name=-`.
enum GivenSettings {
    private static let valueBytesMax = 4096

    /// Looks at them before anything is read.
    static func validate(_ settings: [String]) throws {
        guard settings.count(where: { $0.hasSuffix("=-") }) <= 1 else {
            throw ValidationError("only one setting can be read from standard input")
        }
        for setting in settings where !setting.contains("=") {
            throw ValidationError("'\(Printable.line(setting))' is not a setting: give name=value")
        }
    }

    /// The values by name, read from where they are.
    static func values(_ settings: [String]) async throws -> [String: String] {
        var values: [String: String] = [:]
        for setting in settings {
            let name = String(setting.prefix { $0 != "=" })
            let value = String(setting.dropFirst(name.count + 1))
            guard values[name] == nil else {
                throw CommandFailure(
                    exitCode: .wrongUsage, message: "\(Printable.line(name)) is given twice")
            }
            if value == "-" {
                values[name] = try await CredentialSource.typed("\(Printable.line(name)): ")
            } else if value.hasPrefix("@") {
                values[name] = try CredentialSource.text(
                    ofFile: String(value.dropFirst()), bytesMax: valueBytesMax)
            } else {
                values[name] = value
            }
        }
        return values
    }
}
