import Foundation

/// An export file, read sample by sample.
final class ImportReader {
    /// The longest line there can be: frame and intervals of 512 octets, and five texts of 200
    /// characters, each escaped as two units, make under 16 KiB.
    private static let lineBytesMax = 16_384
    private static let pieceBytes = 65_536

    private struct Head: Decodable { var format: String, version: Int }
    private struct Tail: Decodable { var samples: Int, damaged: Int }

    /// The number of the line that was read last, from 1.
    private(set) var line = 0

    private let descriptor: Int32
    private let decoder = JSONDecoder()
    private var piece: [UInt8] = []
    private var next = 0
    private var samples = 0
    private var isEnded = false

    /// - Throws: ``QueueError`` `invalid-file` if it cannot be opened.
    init(path: String) throws(QueueError) {
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw QueueError(.invalidFile, "open import file", String(cString: strerror(errno)))
        }
    }

    deinit { close(descriptor) }

    /// The next sample; nil at the end of a file that is whole.
    ///
    /// - Throws: ``QueueError`` `invalid-file` with the line's number.
    func nextSample() throws(QueueError) -> ImportLine? {
        do throws(ImportFault) {
            while let bytes = try nextLine() {
                if let sample = try read(bytes) { return sample }
            }
            line += 1
            guard isEnded else { throw ImportFault(reason: "the file is cut off: no last line") }
            return nil
        } catch {
            throw fault(error)
        }
    }

    /// The fault of the line that was read last, as an error.
    func fault(_ fault: ImportFault) -> QueueError {
        QueueError(.invalidFile, "import samples", "line \(line): \(fault.reason)")
    }

    /// The sample of a line; nil for the first and the last line, which hold none.
    private func read(_ bytes: [UInt8]) throws(ImportFault) -> ImportLine? {
        if line == 1 {
            let head = try? decoder.decode(Head.self, from: Data(bytes))
            guard let head, head.format == ExportLine.formatName else {
                throw ImportFault(reason: "this is no export of samples")
            }
            guard head.version == ExportLine.formatVersion else {
                throw ImportFault(reason: "it is of version \(head.version), not 1")
            }
            return nil
        }
        guard !isEnded else { throw ImportFault(reason: "it stands behind the last line") }
        if let tail = try? decoder.decode(Tail.self, from: Data(bytes)) {
            guard tail.samples == samples else {
                throw ImportFault(
                    reason: "the file says \(tail.samples) samples and has \(samples)")
            }
            isEnded = true
            return nil
        }
        samples += 1
        var sample = try ImportLine(bytes, decoder)
        sample.line = line
        return sample
    }

    /// The next line without its end; nil at the end of the file.
    private func nextLine() throws(ImportFault) -> [UInt8]? {
        var bytes: [UInt8] = []
        while true {
            let end = piece[next...].firstIndex(of: UInt8(ascii: "\n"))
            bytes += piece[next..<(end ?? piece.endIndex)]
            next = end.map { $0 + 1 } ?? piece.endIndex
            guard bytes.count <= Self.lineBytesMax else {
                line += 1
                throw ImportFault(reason: "it is too long")
            }
            if end == nil, try fill() { continue }
            if end == nil, bytes.isEmpty { return nil }
            line += 1
            return bytes
        }
    }

    /// Reads on; false at the end of the file.
    private func fill() throws(ImportFault) -> Bool {
        piece = [UInt8](repeating: 0, count: Self.pieceBytes)
        next = 0
        let count = Glibc.read(descriptor, &piece, piece.count)
        piece.removeLast(piece.count - max(0, count))
        guard count >= 0 else { throw ImportFault(reason: String(cString: strerror(errno))) }
        return count > 0
    }
}
