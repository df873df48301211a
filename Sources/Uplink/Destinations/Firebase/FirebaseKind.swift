import Basics
import Foundation
import OfflineQueue

/// A Firebase Realtime Database: a private history below the user, and perhaps a public stream that a page
/// shows. Or a Cloud Firestore of the same project, with the history and the gap ledger.
///
/// deploy/firebase/ has the rules that they need, and the page.
public struct FirebaseKind: DestinationKind {
    /// Which of the project's databases it is.
    enum Store: String, CaseIterable { case realtime, firestore }

    let url: BaseURL
    let store: Store
    let takesLedger: Bool
    let key: Secret
    let account: Login?
    /// The public stream; nil: nothing is shared.
    let share: Secret?
    let emulator: BaseURL?

    public static let name = "firebase"
    public static let summary =
        "a Firebase Realtime Database, with a public stream if wanted, or a Cloud Firestore"
    public static let fields = [
        SettingField(
            "url", .required, isFixed: true,
            "the database, such as https://PROJECT-default-rtdb.firebaseio.com, or "
                + "https://firestore.googleapis.com/v1/projects/PROJECT/databases/(default)"),
        SettingField(
            "store", .standard(Store.realtime.rawValue), isFixed: true,
            "realtime, or firestore: a document a heart rate, and the gap ledger"),
        SettingField("key", isSecret: true, "the project's web API key"),
        SettingField("email", .optional, isFixed: true, "the user that the gateway writes as"),
        SettingField("password", .optional, isSecret: true, "that user's password"),
        SettingField(
            "anonymous", .standard("no"),
            "yes: a user without e-mail, who is lost with this gateway's card"),
        SettingField(
            "share", .standard("no"), "yes: everybody who has the link sees the heart rate"),
        SettingField(
            "share-id", .optional, isSecret: true,
            "the end of that link; openssl rand -hex 16 makes one; another one ends the old link"),
        SettingField(
            "emulator", .optional, "the address of Firebase's Authentication emulator, for trials"),
        SettingField(
            "gaps", .standard("yes"),
            "with store=firestore: deliver why samples are missing, and each day's coverage, as well"
        ),
    ]
    public static let promise = DeliveryPromise(
        level: .durable, mayRepeat: false, mayRace: false,
        words: "the database has written the sample; a repetition has the same key")

    /// About 100 kB a request, 160 kB with a share; a Firestore takes 500 writes.
    public static let pace = DestinationPace(batch: 500)

    public static func remedy(_ reason: HoldReason) -> String? {
        switch reason {
        case .forbidden:
            "publish deploy/firebase/database.rules.json as the database's rules, of a Firestore "
                + "firestore.rules"
        case .credentialsRefused:
            "add the destination again with the user's e-mail and password and the project's key; an "
                + "anonymous user that is lost comes back as a new one"
        case .notFound: "there is no such database: add the destination with the right url"
        case .planExceeded: "the database is full or switched off: look at the project's plan"
        default: nil
        }
    }

    public init(_ values: SettingValues) throws(DestinationProblem) {
        url = try values.url("url")
        store = try values.choice("store")
        takesLedger = try values.choice("gaps", YesOrNo.self) == .yes && store == .firestore
        switch store {
        case .realtime where !url.path.isEmpty:
            throw DestinationProblem(
                "url holds more than the database's address", "leave out its path")
        case .firestore where Self.databaseName(in: url.path) == nil:
            throw DestinationProblem(
                "url does not name a database of Firestore",
                "such as https://firestore.googleapis.com/v1/projects/PROJECT/databases/(default)")
        case .realtime, .firestore: break
        }
        guard let key = values.secret("key") else {
            throw DestinationProblem("key is missing", "the project's web API key")
        }
        self.key = key
        let isAnonymous = try values.choice("anonymous", YesOrNo.self) == .yes
        let problem = DestinationProblem(
            "no user is given", "give email and password, or anonymous=yes alone")
        account = try values.login("email", or: problem)
        guard (account == nil) == isAnonymous else { throw problem }
        let id = values.secret("share-id")
        let isShared = try values.choice("share", YesOrNo.self) == .yes
        guard id.map({ Self.isShareID($0.revealed) }) ?? !isShared else {
            throw DestinationProblem(
                "share-id is missing, or too easy to guess",
                "give 22 to 64 random letters and digits: share-id=$(openssl rand -hex 16)")
        }
        guard store == .realtime || !isShared else {
            throw DestinationProblem(
                "nothing can be shared from a Firestore",
                "leave out share, or share from a Realtime "
                    + "Database: add both destinations")
        }
        share = isShared ? id : nil
        emulator = values.text("emulator") == nil ? nil : try values.url("emulator")
    }

    /// At least 128 bits, if it was drawn at random.
    static func isShareID(_ id: String) -> Bool {
        22...64 ~= id.utf8.count && id.utf8.allSatisfy(\.isAlphanumeric)
    }

    /// The resource name of a database of Firestore, at the end of its address's path.
    static func databaseName(in path: String) -> String? {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).suffix(4)
        guard parts.count == 4, parts.first == "projects", parts.dropFirst(2).first == "databases",
            parts.allSatisfy({ !$0.isEmpty })
        else { return nil }
        return parts.joined(separator: "/")
    }

    /// The same of this one.
    var databaseName: String { Self.databaseName(in: url.path) ?? "" }

    public var place: String { "\(url.origin)\(url.path)" }

    /// Each document that is written costs something.
    public var resolution: Resolution { store == .firestore ? .sixtySeconds : .raw }

    /// One stream shows one person's rate.
    public var servesOnePatient: Bool { share != nil }

    /// The user is the owner of what is below it.
    public var patientIdentity: PatientIdentity { .none }

    public var example: String {
        if store == .firestore {
            var documents = FirestoreDocuments(database: databaseName, user: "USER")
            documents.write(.example)
            if takesLedger { LedgerEntry.examples.forEach { documents.write($0) } }
            return "POST \(place)/documents:commit\n\n"
                + String(decoding: documents.commit, as: UTF8.self)
        }
        let share = share == nil ? nil : "SHARE"
        let body = FirebaseDocuments.batch([.example], user: "USER", share: share)
        return "PATCH \(url.origin)\(FirebaseDocuments.path(user: "USER", share: share))\n\n"
            + String(decoding: body, as: UTF8.self)
    }

    // MARK: - Answers

    /// A Realtime Database's.
    static let answers = [
        AnswerRow(200, .stored),
        AnswerRow(204, .stored),
        AnswerRow(400, contains: "exceeds the maximum size", .tooLarge),
        AnswerRow(400, .refused),
        // Not 403.
        AnswerRow(401, contains: "Permission denied", .held(.forbidden)),
        AnswerRow(423, .held(.planExceeded)),
    ]

    /// A Firestore's, by the word of its status.
    static let firestoreAnswers = [
        AnswerRow(200, .stored),
        AnswerRow(400, contains: "maximum", .tooLarge),
        AnswerRow(400, begins: "FAILED_PRECONDITION", .held(.requestRefused)),
        AnswerRow(400, .refused),
    ]

    func words(of answer: HTTPAnswer) -> String {
        struct Refused: Decodable {
            struct Fault: Decodable, Sendable {
                @IfAny var status: String?
                @IfAny var message: String?
            }
            @IfAny var error: Fault?
        }
        guard answer.content != .page else { return "" }
        if store == .firestore, let fault = (try? Refused(json: answer.body))?.error {
            return "\(fault.status ?? "") \(fault.message ?? "")"
        }
        return String(decoding: answer.body.prefix(500), as: UTF8.self)
    }

    /// Of how many writes a commit's answer has the result.
    static func writes(in body: [UInt8]) -> Int? {
        struct Nothing: Decodable {}
        struct Document: Decodable { @IfAny var writeResults: [IfAny<Nothing>]? }
        return (try? Document(json: body))?.writeResults?.count
    }

    func commit(_ body: [UInt8]) -> HTTPRequest {
        HTTPRequest(
            .post, url.origin, "\(url.path)/documents:commit", contentType: "application/json",
            body: body)
    }

    /// A database lives in one region, and another one's server gives its address:
    /// `{"correctUrl":"https://p-default-rtdb.europe-west1.firebasedatabase.app","error":"Database lives in …"}`.
    private static func correctAddress(in answer: HTTPAnswer) -> Origin? {
        struct Elsewhere: Decodable { var correctUrl: String }
        guard answer.status >= 300, answer.content == .document else { return nil }
        let elsewhere = try? JSONDecoder().decode(Elsewhere.self, from: Data(answer.body))
        return elsewhere.flatMap { Origin($0.correctUrl) }
    }

    /// Where an answer sends clients, in its body or by its status.
    static func redirect(_ answer: HTTPAnswer, of origin: Origin) -> Redirect? {
        correctAddress(in: answer).map { Redirect(status: answer.status, target: $0) }
            ?? Redirect(answer, of: origin)
    }

    func meaning(of answer: HTTPAnswer) -> AnswerMeaning {
        if Self.correctAddress(in: answer) != nil { return .held(.moved) }
        // A page is of a proxy or a captive portal, whatever its status says.
        if 300..<400 ~= answer.status { return .held(.moved) }
        if answer.content == .page { return .unclear }
        let words = words(of: answer)
        let table = store == .realtime ? Self.answers : Self.firestoreAnswers
        return (table + AnswerRow.general).first { $0.matches(answer, words) }?.meaning
            ?? .unclear
    }

    // MARK: - The destination

    public func make(_ parts: DestinationParts) -> any Destination {
        FirebaseDestination(self, tokens: tokens(parts), parts)
    }

    private func accounts(_ parts: DestinationParts) -> FirebaseAccounts {
        FirebaseAccounts(
            transport: parts.transport, clock: parts.clock, emulator: emulator, key: key)
    }

    private func tokens(_ parts: DestinationParts) -> RenewingTokens {
        let credential: Credential =
            account.map { .password(account: $0.name, $0.password) } ?? .none
        let record =
            parts.tokens
            ?? TokenRecord(
                origin: url.origin, clientID: account?.name ?? "", credential: credential,
                pair: .spent)
        let accounts = accounts(parts)
        return RenewingTokens(
            record: record, clock: parts.clock, logger: parts.logger, save: parts.saveTokens
        ) { _ in accounts }
    }

    public func probe(
        _ parts: DestinationParts
    ) async throws(DestinationProblem) -> ProbeReport {
        let granted = SavedTokens()
        var parts = parts
        parts.saveTokens = { granted.set($0) }
        if account == nil {
            // Another user could neither read nor delete what this one wrote.
            let known = parts.storedTokens
            let isOwn = known?.credential == Credential.none && known?.origin == url.origin
            let record = if let known, isOwn { known } else { try await anonymousUser(parts) }
            parts.tokens = record
            granted.set(record)
        }
        try await FirebaseDestination(self, tokens: tokens(parts), parts).probe()
        return ProbeReport(
            checked: [
                "the user signs in", "\(place) lets it write below its own name; taken back",
            ],
            unchecked: share == nil
                ? [] : ["whether the rules let it share: the first sample shows it"],
            tokens: granted.now)
    }

    private func anonymousUser(
        _ parts: DestinationParts
    ) async throws(DestinationProblem) -> TokenRecord {
        switch await accounts(parts).signUp() {
        case .granted(let pair):
            return TokenRecord(
                origin: url.origin, clientID: "", credential: .none, pair: pair)
        case .refused:
            throw DestinationProblem(
                "Firebase makes no anonymous user for this key",
                "switch on anonymous users under Authentication, Sign-in method, and check the key")
        case .unclear, .notSent:
            throw DestinationProblem(
                "Firebase Authentication does not answer as it should",
                "check the network, and try again")
        }
    }
}
