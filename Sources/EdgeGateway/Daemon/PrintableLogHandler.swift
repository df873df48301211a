import Logging

/// Writes a log in which each message is one line, whatever names of sensors and words of exchanges are in it.
struct PrintableLogHandler: LogHandler {
    private var inner: StreamLogHandler

    init(_ inner: StreamLogHandler) { self.inner = inner }

    var logLevel: Logger.Level {
        get { inner.logLevel }
        set { inner.logLevel = newValue }
    }
    var metadata: Logger.Metadata {
        get { inner.metadata }
        set { inner.metadata = newValue }
    }
    var metadataProvider: Logger.MetadataProvider? {
        get { inner.metadataProvider }
        set { inner.metadataProvider = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { inner[metadataKey: key] }
        set { inner[metadataKey: key] = newValue.map(Self.printable) }
    }

    func log(event: LogEvent) {
        var event = event
        event.message = "\(Printable.line(event.message.description))"
        event.metadata = event.metadata?.mapValues(Self.printable)
        inner.log(event: event)
    }

    private static func printable(_ value: Logger.MetadataValue) -> Logger.MetadataValue {
        switch value {
        case .array(let values): .array(values.map(printable))
        case .dictionary(let values): .dictionary(values.mapValues(printable))
        default: .string(Printable.line(value.description))
        }
    }
}
