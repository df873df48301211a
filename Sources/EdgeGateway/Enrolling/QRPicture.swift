import CQREncode

/// A QR code as text, by libqrencode: two rows of modules a line, so that it is square on a terminal.
enum QRPicture {
    /// A reader wants this many light modules around it (ISO/IEC 18004 §6.3.8).
    private static let quietModules = 4

    /// The lines for terminals with light letters on a dark ground: a dark module is a blank.
    ///
    /// - Returns: nil for a text that is too long to be one, and without libqrencode, which standard error says.
    static func lines(_ text: String) -> [String]? {
        guard let code = cqrencode_text(text) else { return nil }
        defer { cqrencode_free(code) }
        let width = Int(code.pointee.width)
        guard let modules = code.pointee.data else { return nil }
        func isDark(_ row: Int, _ column: Int) -> Bool {
            (0..<width).contains(row) && (0..<width).contains(column)
                && modules[row * width + column] & 1 == 1
        }
        let span = -quietModules..<width + quietModules
        return stride(from: span.lowerBound, to: span.upperBound, by: 2).map { row in
            String(
                span.map { column -> Character in
                    let upper = !isDark(row, column)
                    let lower = !isDark(row + 1, column)
                    return upper ? (lower ? "█" : "▀") : (lower ? "▄" : " ")
                })
        }
    }
}
