import GRDB

/// Why an operation on the store did not happen, in a form a program can branch on and a person can
/// act on.
///
/// The description holds no sensor address, patient or frame: it is safe to log.
public struct QueueError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kinds of fault; each has exactly one line of advice.
    public enum Code: String, Sendable, Hashable, CaseIterable {
        /// No space is left on the file system, or the database reached its page limit.
        case diskFull = "disk-full"
        /// The file or its file system cannot be written to.
        case readOnly = "read-only"
        /// The store is sound, and was written by another version of this program.
        case otherVersion = "other-version"
        /// Another process has this store open.
        case inUse = "in-use"
        /// The file is damaged, or is no database.
        case corrupt
        /// The file or its directory cannot be opened.
        case cannotOpen = "cannot-open"
        /// The disk answered with an input/output error.
        case inputOutput = "input-output"
        /// The store was closed before this call.
        case closed
        /// A sensor, enrollment, assignment, boot or sample that is not in the store was named.
        case unknownReference = "unknown-reference"
        /// The outcomes do not follow one another without a hole from the segment's cursor on.
        case notContiguous = "not-contiguous"
        /// A fact that is written once and never edited already has another value.
        case alreadySet = "already-set"
        /// A strap is worn by another patient, or by none, than the one whom a change took for granted.
        case strapChanged = "strap-changed"
        /// A strap still records for the patient who is to be erased.
        case strapRecords = "strap-records"
        /// Samples wait that were not given up.
        case samplesWait = "samples-wait"
        /// Samples that were not given up may still be under way from a strap.
        case samplesMayCome = "samples-may-come"
        /// A destination that samples are owned by cannot be removed beside them.
        case ownDestination = "own-destination"
        /// An argument is outside its documented range.
        case invalidArgument = "invalid-argument"
        /// Samples to import are of another patient than the one that was named.
        case patientRefused = "patient-refused"
        /// A file to import is not what it should be.
        case invalidFile = "invalid-file"
        /// SQLite refused for a reason that is a defect of this program.
        case internalFault = "internal-fault"
    }

    /// The kind of fault.
    public let code: Code
    /// The step that failed, as "verb noun": "commit samples".
    public let operation: String
    /// The cause as the system words it, or the argument at fault.
    public let cause: String

    /// An error of `code` met during `operation`.
    public init(_ code: Code, _ operation: String, _ cause: String) {
        self.code = code
        self.operation = operation
        self.cause = cause
    }

    /// The event, its meaning for the data, and the remedy.
    public var description: String {
        "\(operation): \(cause) (\(code.rawValue)). \(code.advice)"
    }

    /// Whether the same call may succeed later without a change to its arguments: the store, not the
    /// request, is at fault.
    public var isStoreTrouble: Bool {
        switch code {
        case .diskFull, .readOnly, .inputOutput, .inUse, .corrupt, .cannotOpen: true
        default: false
        }
    }
}

extension QueueError.Code {
    /// The meaning of the fault for the data, and the remedy.
    public var advice: String {
        switch self {
        case .diskFull:
            "Stored samples are safe; new ones wait in memory and are counted if they must be "
                + "dropped. Free space on the file system of the state directory."
        case .readOnly:
            "Stored samples are safe; new ones wait in memory and are counted if they must be "
                + "dropped. Make the state directory writable for this user; a card that turned "
                + "read-only by itself is failing and wants replacing."
        case .otherVersion:
            "The store was left as it is. Install the version that wrote it, and export what waits "
                + "(edge-gateway queue export FILE); or move queue.sqlite and queue.sqlite-wal away, "
                + "and this version begins a new store."
        case .inUse:
            "Nothing was changed. Stop the other edge-gateway, or use its control socket."
        case .corrupt:
            "What can be read is salvaged into a new store, and the broken file is kept beside it. "
                + "See the kernel's log; the card or disk is probably failing."
        case .cannotOpen:
            "Nothing is recorded until it opens. See that the state directory exists and belongs "
                + "to this user."
        case .inputOutput:
            "Samples not yet on disk wait in memory and are counted if they must be dropped. "
                + "See the kernel's log; the card or disk is probably failing."
        case .closed:
            "Nothing was changed. Open the store again."
        case .unknownReference:
            "Nothing was changed. List what the store knows and name one of those."
        case .notContiguous:
            "Nothing was settled. The samples stay pending; ask for the batch and settle it in order."
        case .strapChanged:
            "Nothing was changed. See whose it is (edge-gateway straps), and pair it again."
        case .strapRecords:
            "Nothing was changed. Forget the strap first: edge-gateway straps lists it."
        case .alreadySet:
            "Nothing was changed. Stored samples are never attributed anew; begin a new one instead."
        case .invalidArgument:
            "Nothing was changed. Correct the value."
        case .patientRefused:
            "Nothing was imported. Name the enrollment of the person who wore the strap (--enrollment), or of a "
                + "practitioner's patients that one (--patient); or import other assignments (--assignment)."
        case .samplesWait:
            "Nothing was changed. edge-gateway queue drain; or give them up with --undelivered."
        case .samplesMayCome:
            "Nothing was changed. Try again in a minute (edge-gateway status says what is wrong); or give them up "
                + "with --undelivered."
        case .ownDestination:
            "Nothing was changed. Pair the strap again with another --enrollment; then edge-gateway erase "
                + "NAME erases what was recorded for this one."
        case .invalidFile:
            "Nothing was imported. Export again and copy the whole file."
        case .internalFault:
            "The transaction was undone. Please report this with the message."
        }
    }

    /// The code for a SQLite result.
    init(_ code: ResultCode) {
        switch code.primaryResultCode {
        case .SQLITE_FULL: self = .diskFull
        case .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_AUTH: self = .readOnly
        case .SQLITE_BUSY, .SQLITE_LOCKED: self = .inUse
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: self = .corrupt
        case .SQLITE_CANTOPEN: self = .cannotOpen
        case .SQLITE_IOERR: self = .inputOutput
        case .SQLITE_MISUSE: self = .closed
        default: self = .internalFault
        }
    }
}

extension QueueError {
    /// `error` as met during `operation`; a `QueueError` passes through unchanged.
    init(_ operation: String, _ error: any Error) {
        switch error {
        case let error as QueueError:
            self = error
        case is RowDecodingError:
            self.init(.corrupt, operation, "a value is not of its column's type")
        case let error as DatabaseError:
            // The SQL and its arguments stay out: they may hold what must not be logged.
            self.init(
                Code(error.resultCode), operation,
                "SQLite \(error.extendedResultCode.rawValue): "
                    + (error.message ?? "no message").asOneLine)
        default:
            self.init(.internalFault, operation, String(describing: type(of: error)))
        }
    }
}

extension String {
    /// The most that is kept of what SQLite says: its own words are shorter.
    private static let sqliteCharactersMax = 200

    /// SQLite's words as one short printable line: it quotes names from the file, which may be damaged or made to
    /// do harm.
    var asOneLine: String {
        let scalars = unicodeScalars.prefix(Self.sqliteCharactersMax).map { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator:
                "\u{FFFD}" as Unicode.Scalar
            default: scalar
            }
        }
        let isCut = unicodeScalars.dropFirst(Self.sqliteCharactersMax).first != nil
        return String(String.UnicodeScalarView(scalars)) + (isCut ? "…" : "")
    }
}
