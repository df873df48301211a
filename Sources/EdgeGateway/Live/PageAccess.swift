import Foundation

/// Who may see the live page.
///
/// On loopback everybody who is on this machine already may. Elsewhere a token is needed: that of the
/// operator shows the whole page, that of a share a heart rate. A token that is shown decides alone, also
/// on loopback: one that has ended shows nothing. The cookie is the token itself, so
/// that a screen in a ward lives through a restart of the daemon, and a share that is stopped ends
/// where it is displayed. A program's token opens its one thing alone.
actor PageAccess {
    /// The outcome of a check of a token.
    enum Admission: Equatable {
        case admitted(ViewerScope)
        case refused
        /// Too many wrong ones came lately.
        case tooMany(retryAfter: Duration)
    }

    /// The paths that a program's token opens.
    enum Program: Hashable, CaseIterable {
        /// `/v1/fleet`, and what is below it.
        case fleet
        /// `/metrics`.
        case metrics
    }

    /// Wrong tokens in a minute after which none is checked for the rest of it. No person types 43
    /// characters wrong this often, and a guess has no chance in any number.
    static let wrongPerMinuteMax = 20

    private let isOpen: Bool
    private let operatorToken: String?
    private let programs: [Program: String]
    private let shares: Shares
    private var wrong: (minute: Int, count: Int) = (0, 0)

    /// - Parameters:
    ///   - isOpen: no token is needed: only this machine can reach the page.
    ///   - operatorToken: shows the whole page.
    ///   - programs: tokens that open one thing each, and show nothing of the page.
    init(
        isOpen: Bool, operatorToken: String?, programs: [Program: String] = [:], shares: Shares
    ) {
        self.isOpen = isOpen
        self.operatorToken = operatorToken
        self.programs = programs
        self.shares = shares
    }

    /// The scope of the viewer with this cookie; nil for an unknown cookie, and for a program's.
    func scope(cookie: String?, at now: Date) async -> ViewerScope? {
        guard let cookie else { return isOpen ? .full : nil }
        return await scope(of: cookie, at: now)
    }

    /// Whether a request with this token may use a program's path. A viewer of the whole page may use every path; the
    /// holder of a share, and another program's token, may not.
    func opens(_ wanted: Program, token: String?, at now: Date) async -> Bool {
        if let token, let program = program(of: token) { return program == wanted }
        return await scope(cookie: token, at: now) == .full
    }

    private func program(of token: String) -> Program? {
        programs.first { token.isSameSecret(as: $0.value) }?.key
    }

    /// Checks a token of a request.
    func admit(_ token: String, at now: Date) async -> Admission {
        let seconds = Int(now.timeIntervalSince1970)
        if wrong.minute != seconds / 60 { wrong = (seconds / 60, 0) }
        guard wrong.count < Self.wrongPerMinuteMax else {
            return .tooMany(retryAfter: .seconds(60 - seconds % 60))
        }
        guard let scope = await scope(of: token, at: now) else {
            wrong.count += 1
            return .refused
        }
        return .admitted(scope)
    }

    private func scope(of token: String, at now: Date) async -> ViewerScope? {
        if let operatorToken, token.isSameSecret(as: operatorToken) { return .full }
        return await shares.scope(of: token, at: now)
    }
}

extension String {
    /// Whether two secrets are the same, in a time that does not tell how far they agree.
    func isSameSecret(as other: String) -> Bool {
        let left = Array(utf8)
        let right = Array(other.utf8)
        guard left.count == right.count else { return false }
        var difference: UInt8 = 0
        for index in left.indices { difference |= left[index] ^ right[index] }
        return difference == 0
    }
}
