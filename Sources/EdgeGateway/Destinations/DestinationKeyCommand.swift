import ArgumentParser
import Uplink

struct DestinationKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key",
        abstract: "Makes a key that signs in at a FHIR server, and prints its public half.",
        discussion: """
            The private key goes into a new file that this user alone can read, and never leaves the \
            machine. The server's operator registers the printed JSON Web Key Set for a client of \
            SMART Backend Services. Then run `destination add fhir client-id=ID key=@FILE …`.

            Examples:
              edge-gateway destination key hospital.key
              edge-gateway destination key --show hospital.key
            """)

    /// Longer is no key.
    private static let bytesMax = 4096

    @Argument(help: "The file of the private key.", completion: .file())
    var file: String
    @Flag(help: "Make none: print the public half of the key in the file.")
    var show = false

    func run() async throws {
        if show {
            let text = try CredentialSource.text(ofFile: file, bytesMax: Self.bytesMax)
            guard let key = SigningKey(text) else {
                throw CommandFailure(
                    exitCode: .wrongUsage, message: "\(file) holds no key that this command made")
            }
            return Terminal.print(key.keySet)
        }
        guard let key = SigningKey.make() else {
            throw CommandFailure(exitCode: .notWell, message: "libcrypto makes no RSA key")
        }
        let output = try OutputFile(file)
        try output.write(Array((key.text.revealed + "\n").utf8))
        try output.finish()
        Terminal.print(key.keySet)
    }
}
