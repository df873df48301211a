import Glibc

/// A fault that was mended once and is there again, chosen by its name in MUTATION.
package enum Mutation {
    private static let active = getenv("MUTATION").map { String(cString: $0) }

    package static func isOn(_ name: String) -> Bool { active == name }
}
